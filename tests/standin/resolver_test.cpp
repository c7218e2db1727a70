// cuGetProcAddress of the stand-in, against what a real driver (580) answers.
#include <string>

#include "tests/standin/launches_fixture.h"
#include "tests/standin/versions.h"

namespace salus::test {
namespace {

constexpr std::uint64_t kLegacyFlavour = 1, kPerThreadFlavour = 2;
enum Answer { kFound = 0, kNoSuchName = 1, kVersionTooLow = 2 };

TEST_F(StandinTest, ResolvesEveryFunctionToTheExportedSymbol) {
    in_process([] {
        const Standin gpu = Standin::load();
        void* found = nullptr;
        int answer = -1;
#define SALUS_STANDIN_RESOLVE(member, name, since, flavour)                                                          \
    EXPECT_EQ(gpu.resolve(#name, &found, since, sizeof(#flavour) > 1 ? kPerThreadFlavour : 0, &answer), 0) << #name; \
    EXPECT_EQ(found, reinterpret_cast<void*>(gpu.member)) << #name " of " #since;                                    \
    EXPECT_EQ(answer, kFound);
        SALUS_STANDIN_VERSIONS(SALUS_STANDIN_RESOLVE)
#undef SALUS_STANDIN_RESOLVE
    });
}

TEST_F(StandinTest, ResolvesByNameVersionAndFlavour) {
    in_process([] {
        const Standin gpu = Standin::load();  // before cuInit
        const struct {
            const char* name;
            int version;
            std::uint64_t flavour;
            const char* symbol;  ///< null: not found
            int answer = kFound;
        } rows[] = {
            {"cuMemAlloc", 3010, 0, "cuMemAlloc"},
            {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
            {"cuMemAlloc", 13000, kPerThreadFlavour, "cuMemAlloc_v2"},
            {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
            {"cuGetProcAddress", 11080, 0, "cuGetProcAddress"},
            {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
            {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2"},
            {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
            {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
            {"cuLaunchKernel", 13000, 0, "cuLaunchKernel"},
            {"cuLaunchKernel", 13000, kLegacyFlavour, "cuLaunchKernel"},
            {"cuLaunchKernel", 13000, kPerThreadFlavour, "cuLaunchKernel_ptsz"},
            {"cuLaunchKernel", 6050, 0, "cuLaunchKernel"},
            {"cuLaunchKernel", 6050, kPerThreadFlavour, nullptr, kVersionTooLow},
            {"cuLaunchKernel", 7000, kPerThreadFlavour, "cuLaunchKernel_ptsz"},
            {"cuLaunchHostFunc", 10000, kPerThreadFlavour, "cuLaunchHostFunc_ptsz"},
            {"cuMemcpyHtoD", 12000, kPerThreadFlavour, "cuMemcpyHtoD_v2_ptds"},
            {"cuStreamWaitValue32", 8000, 0, "cuStreamWaitValue32"},
            {"cuStreamWaitValue32", 11060, kPerThreadFlavour, "cuStreamWaitValue32_ptsz"},
            {"cuStreamWaitValue32", 13000, 0, "cuStreamWaitValue32_v2"},
            {"cuStreamWriteValue32", 13000, kPerThreadFlavour, "cuStreamWriteValue32_v2_ptsz"},
            {"cuStreamWriteValue32", 7050, 0, nullptr, kVersionTooLow},
            {"cuLaunchKernel", 3020, 0, nullptr, kVersionTooLow},
            {"cuLaunchKernelEx", 11050, kPerThreadFlavour, nullptr, kVersionTooLow},
            {"cuMemAlloc_v2", 13000, 0, nullptr, kNoSuchName},
            {"cuLaunchKernel_ptsz", 13000, kPerThreadFlavour, nullptr, kNoSuchName},
            {"cuNoSuchThing", 13000, 0, nullptr, kNoSuchName},
            {"", 13000, 0, nullptr, kNoSuchName},
        };
        void* const library = ::dlopen(SALUS_STANDIN_DIR "/libcuda.so.1", RTLD_NOW);
        for (const auto& row : rows) {
            void *found = library, *found_v1 = library;
            int answer = -1;
            void* const wanted = row.symbol ? ::dlsym(library, row.symbol) : nullptr;
            EXPECT_EQ(gpu.resolve(row.name, &found, row.version, row.flavour, &answer), 0) << row.name;
            EXPECT_EQ(found, wanted) << row.name << " of " << row.version;
            EXPECT_EQ(answer, row.answer) << row.name << " of " << row.version;
            EXPECT_EQ(gpu.resolve_v1(row.name, &found_v1, row.version, row.flavour), wanted ? 0 : error::kNotFound);
            EXPECT_EQ(found_v1, wanted ? wanted : library) << row.name << ": the first version writes nothing";
        }
        void* found = nullptr;
        EXPECT_EQ(gpu.resolve("cuInit", &found, 13010, 0, nullptr), error::kInvalidValue) << "newer than the driver";
        EXPECT_EQ(gpu.resolve("cuInit", &found, 13000, 8, nullptr), error::kInvalidValue) << "no such flavour";
        EXPECT_EQ(gpu.resolve("cuInit", nullptr, 13000, 0, nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.resolve(nullptr, &found, 13000, 0, nullptr), error::kInvalidValue);
        EXPECT_EQ(gpu.resolve("cuInit", &found, 13000, 0, nullptr), 0) << "nobody need ask how it was found";
    });
}

}  // namespace
}  // namespace salus::test
