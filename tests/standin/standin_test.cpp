// The stand-in GPU itself: it is as strict, as shared and as late as a real one.
#include "tests/standin/standin_fixture.h"

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/nvml.h"

namespace salus::test {
namespace {

using namespace device::cuda;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kUnit = 2 * kMiB;
constexpr Status kInvalidValue = 1, kNotInitialised = 3, kNoDevice = 100, kInvalidDevice = 101, kInvalidContext = 201,
                 kInvalidHandle = 400, kIllegalAddress = 700, kNotSupported = 801;

Handle create(const Standin& gpu, std::uint64_t size = kUnit) {
    const AllocationProperties properties;
    Handle handle = 0;
    EXPECT_EQ(gpu.memory_create(&handle, size, &properties, 0), kSuccess);
    return handle;
}
Address reserve(const Standin& gpu, std::uint64_t size) {
    Address start = 0;
    EXPECT_EQ(gpu.address_reserve(&start, size, 0, 0, 0), kSuccess);
    return start;
}
void map(const Standin& gpu, Address start, std::uint64_t size, Handle handle) {
    const AccessDescription access;
    EXPECT_EQ(gpu.memory_map(start, size, 0, handle, 0), kSuccess);
    EXPECT_EQ(gpu.memory_set_access(start, size, &access, 1), kSuccess);
}
Address mapped(const Standin& gpu, std::uint64_t size = kUnit) {
    const Address start = reserve(gpu, size);
    map(gpu, start, size, create(gpu, size));
    return start;
}
void* as_pointer(int descriptor) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)); }
volatile unsigned char& byte_at(Address address) { return *reinterpret_cast<volatile unsigned char*>(address); }

/// Whether the host can read it, asked of the kernel.
bool is_readable(Address address) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const bool readable = ::write(ends[1], reinterpret_cast<void*>(address), 1) == 1;
    ::close(ends[0]);
    ::close(ends[1]);
    return readable;
}

Nvml watch() {
    auto nvml = Nvml::open("GPU-5a1d5a1d-0000-4000-8000-000000000000");
    EXPECT_TRUE(nvml.ok());
    return nvml.value();
}
std::uint64_t used() { return static_cast<std::uint64_t>(watch().used()->count); }
std::uint64_t used_by(pid_t pid) { return static_cast<std::uint64_t>(watch().used_by_process()->at(pid).count); }

TEST_F(StandinTest, IsADeviceWithANameAndMemory) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(256 * kMiB);
    in_process([] {
        const Standin gpu = Standin::start();
        int count = 0, value = 0;
        std::size_t total = 0, granularity = 0;
        char name[32] = "";
        Uuid uuid{};
        Ordinal device = -1;
        const AllocationProperties properties;
        EXPECT_EQ(gpu.device_count(&count), kSuccess);
        EXPECT_EQ(count, 1);
        EXPECT_EQ(gpu.device_get(&device, 0), kSuccess);
        EXPECT_EQ(gpu.device_get(&device, 1), kInvalidDevice);
        EXPECT_EQ(gpu.device_name(name, sizeof name, device), kSuccess);
        EXPECT_STREQ(name, "Stand-in GPU");
        EXPECT_EQ(gpu.device_uuid(&uuid, device), kSuccess);
        EXPECT_EQ(text_of(uuid), "GPU-5a1d5a1d-0000-4000-8000-000000000000");
        EXPECT_EQ(gpu.device_total_memory(&total, device), kSuccess);
        EXPECT_EQ(total, 256 * kMiB);
        EXPECT_EQ(gpu.device_attribute(&value, kAttributeVirtualMemory, device), kSuccess);
        EXPECT_EQ(value, 1);
        EXPECT_EQ(gpu.memory_granularity(&granularity, &properties, kGranularityMinimum), kSuccess);
        EXPECT_EQ(granularity, kUnit);
        EXPECT_EQ(gpu.name_of(kOutOfMemory), "CUDA_ERROR_OUT_OF_MEMORY");
        EXPECT_EQ(gpu.name_of(12345), "CUDA error 12345");
        EXPECT_EQ(watch().driver_version(), "0.0 (stand-in)");
    });
}

TEST_F(StandinTest, IsSeenAsCudaVisibleDevicesSays) {
    const struct {
        const char *selection, *first;
        int count;
    } rows[] = {
        {"", "", 0},
        {"-1", "", 0},
        {"2", "", 0},
        {"1", "01", 1},
        {"1,0", "01", 2},
        {"0,7,1", "00", 1},
        {"GPU-5a1d5a1d-0000-4000-8000-000000000001", "01", 1},
        {"GPU-5a1d", "00", 1},
    };
    environment["SALUS_STANDIN_DEVICES"] = "2";
    for (const auto& row : rows) {
        environment["CUDA_VISIBLE_DEVICES"] = row.selection;
        in_process([&] {
            const Standin gpu = Standin::load();
            int count = 0;
            EXPECT_EQ(gpu.init(0), row.count ? kSuccess : kNoDevice) << row.selection;
            EXPECT_EQ(gpu.device_count(&count), row.count ? kSuccess : kNotInitialised);
            EXPECT_EQ(count, row.count) << row.selection;
            Uuid uuid{};
            if (row.count == 0) return;
            EXPECT_EQ(gpu.device_uuid(&uuid, 0), kSuccess);
            EXPECT_TRUE(text_of(uuid).ends_with(row.first)) << row.selection;
        });
    }
}

TEST_F(StandinTest, NeedsToBeInitialisedAndAContextOnTheThread) {
    in_process([] {
        const Standin gpu = Standin::load();
        Context context = nullptr;
        Stream stream = nullptr;
        Handle handle = 0;
        const AllocationProperties properties;
        EXPECT_EQ(gpu.get_current(&context), kNotInitialised);
        EXPECT_EQ(gpu.memory_create(&handle, kUnit, &properties, 0), kNotInitialised);
        EXPECT_EQ(gpu.init(0), kSuccess);
        EXPECT_EQ(gpu.init(0), kSuccess);
        handle = create(gpu);  // memory can be made without one
        const Address start = reserve(gpu, kUnit);
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, handle, 0), kInvalidContext);
        EXPECT_EQ(gpu.stream_create(&stream, 0), kInvalidContext);
        EXPECT_EQ(gpu.stream_synchronize(nullptr), kInvalidContext);
        EXPECT_EQ(gpu.set_current(&stream), kInvalidContext);
        EXPECT_EQ(gpu.retain_primary_context(&context, 0), kSuccess);
        EXPECT_EQ(gpu.stream_create(&stream, 0), kInvalidContext);
        EXPECT_EQ(gpu.set_current(context), kSuccess);
        EXPECT_EQ(gpu.stream_create(&stream, 0), kSuccess);
        std::thread([&] {
            Context here = &handle;
            EXPECT_EQ(gpu.get_current(&here), kSuccess);
            EXPECT_EQ(here, nullptr);
            EXPECT_EQ(gpu.stream_synchronize(stream), kInvalidContext);
        }).join();
    });
}

TEST_F(StandinTest, RefusesWrongMemoryCalls) {
    in_process([] {
        const Standin gpu = Standin::start();
        AllocationProperties properties;
        const AccessDescription access;
        Handle handle = 0;
        EXPECT_EQ(gpu.memory_create(&handle, 0, &properties, 0), kInvalidValue);
        EXPECT_EQ(gpu.memory_create(&handle, kMiB, &properties, 0), kInvalidValue);
        properties.location.id = 7;
        EXPECT_EQ(gpu.memory_create(&handle, kUnit, &properties, 0), kInvalidDevice);

        const Handle one = create(gpu), two = create(gpu), pair = create(gpu, 2 * kUnit);
        const Address start = reserve(gpu, 8 * kUnit);
        EXPECT_EQ(start % kUnit, 0u);
        EXPECT_EQ(gpu.memory_map(start, 2 * kUnit, 0, one, 0), kInvalidValue) << "larger than it is";
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, pair, 0), kInvalidValue) << "smaller than it is";
        EXPECT_EQ(gpu.memory_map(start, kUnit, kUnit, pair, 0), kNotSupported) << "from an offset";
        EXPECT_EQ(gpu.memory_map(start + kMiB, kUnit, 0, one, 0), kInvalidValue) << "not aligned";
        EXPECT_EQ(gpu.memory_map(start + 7 * kUnit, 2 * kUnit, 0, pair, 0), kInvalidValue) << "not reserved";
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, 12345, 0), kInvalidValue) << "no such handle";
        EXPECT_EQ(gpu.memory_set_access(start, kUnit, &access, 1), kInvalidValue) << "nothing is mapped";
        EXPECT_EQ(gpu.memory_unmap(start, kUnit), kInvalidValue) << "nothing is mapped";

        map(gpu, start, kUnit, one);
        map(gpu, start + kUnit, kUnit, two);
        map(gpu, start + 2 * kUnit, 2 * kUnit, pair);
        map(gpu, start + 6 * kUnit, kUnit, one);  // a second time, elsewhere: that is fine
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, two, 0), kInvalidValue) << "mapped already";
        EXPECT_EQ(gpu.memory_map(start + 3 * kUnit, kUnit, 0, two, 0), kInvalidValue) << "mapped already, in part";
        EXPECT_EQ(gpu.memory_unmap(start + 2 * kUnit, kUnit), kInvalidValue) << "half of a mapping";
        EXPECT_EQ(gpu.memory_unmap(start + 3 * kUnit, kUnit), kInvalidValue) << "its other half";
        EXPECT_EQ(gpu.memory_unmap(start + kUnit, 2 * kUnit), kInvalidValue) << "one and a half";
        EXPECT_EQ(gpu.memory_unmap(start + 2 * kUnit, 5 * kUnit), kInvalidValue) << "across a hole";
        EXPECT_EQ(gpu.address_free(start, 8 * kUnit), kInvalidValue) << "something is mapped";
        EXPECT_EQ(gpu.memory_unmap(start, 4 * kUnit), kSuccess) << "three side by side";
        EXPECT_EQ(gpu.memory_unmap(start + 6 * kUnit, kUnit), kSuccess);

        EXPECT_EQ(gpu.memory_release(one), kSuccess);
        EXPECT_EQ(gpu.memory_release(one), kInvalidValue);
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, one, 0), kInvalidValue) << "released";
        EXPECT_EQ(gpu.address_free(start, kUnit), kInvalidValue) << "not all of it";
        EXPECT_EQ(gpu.address_free(start, 8 * kUnit), kSuccess);
        EXPECT_EQ(gpu.address_free(start, 8 * kUnit), kInvalidValue);

        int descriptor = -1;
        EXPECT_EQ(gpu.memory_export(&descriptor, one, kHandleTypeDescriptor, 0), kInvalidValue);
        EXPECT_EQ(gpu.memory_export(&descriptor, two, 2, 0), kInvalidValue);
        EXPECT_EQ(gpu.memory_import(&handle, as_pointer(-1), kHandleTypeDescriptor), kInvalidValue);
        EXPECT_EQ(gpu.memory_import(&handle, as_pointer(STDERR_FILENO), kHandleTypeDescriptor), kInvalidValue);
    });
}

TEST_F(StandinTest, MemoryIsThereOnceAccessIsSetAndAsLongAsItIsMapped) {
    in_process([] {
        const Standin gpu = Standin::start();
        const AccessDescription access;
        const Handle handle = create(gpu);
        const Address start = reserve(gpu, 2 * kUnit);
        EXPECT_EQ(gpu.memory_map(start, kUnit, 0, handle, 0), kSuccess);
        EXPECT_FALSE(is_readable(start));
        EXPECT_EQ(gpu.memory_set_access(start, kUnit, &access, 1), kSuccess);
        EXPECT_TRUE(is_readable(start));
        byte_at(start + 5) = 42;
        map(gpu, start + kUnit, kUnit, handle);
        EXPECT_EQ(byte_at(start + kUnit + 5), 42) << "the same memory";
        EXPECT_EQ(gpu.memory_release(handle), kSuccess);
        EXPECT_EQ(gpu.memory_unmap(start, kUnit), kSuccess);
        EXPECT_FALSE(is_readable(start));
        EXPECT_EQ(byte_at(start + kUnit + 5), 42) << "mapped still";
        EXPECT_EQ(used(), 64 * kMiB + kUnit);
        EXPECT_EQ(gpu.memory_unmap(start + kUnit, kUnit), kSuccess);
        EXPECT_EQ(used(), 64 * kMiB);
    });
}

TEST_F(StandinTest, ProcessesShareItsMemoryAndWhoDiesGivesItBack) {
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(200 * kMiB);
    Part hoarder(environment, [](const Line& line) {
        const Standin gpu = Standin::start();
        create(gpu, 100 * kMiB);
        line.say();
        line.hear();
    });
    hoarder.line().hear();
    Part other(environment, [&](const Line& line) {
        const Standin gpu = Standin::load();
        EXPECT_EQ(gpu.init(0), kSuccess);
        const AllocationProperties properties;
        Handle handle = 0;
        Context context = nullptr;
        EXPECT_EQ(gpu.retain_primary_context(&context, 0), kOutOfMemory);
        EXPECT_EQ(gpu.memory_create(&handle, 38 * kMiB, &properties, 0), kOutOfMemory);
        handle = create(gpu, 36 * kMiB);
        EXPECT_EQ(used(), 200 * kMiB);
        EXPECT_EQ(watch().used_by_process()->size(), 1u) << "who has no context is not listed";
        EXPECT_EQ(used_by(hoarder.pid()), 164 * kMiB);
        line.say();
        line.hear();
        EXPECT_EQ(used(), 36 * kMiB);
        EXPECT_EQ(gpu.memory_create(&handle, 164 * kMiB, &properties, 0), kSuccess);
    });
    other.line().hear();
    hoarder.kill();
    other.line().say();
    EXPECT_EQ(other.status(), 0);
    EXPECT_EQ(hoarder.status(), SIGKILL);
}

TEST_F(StandinTest, SharedMemoryIsItsMakersThenThatOfWhoImportedIt) {
    Part maker(environment, [](const Line& line) {
        const Standin gpu = Standin::start();
        const Handle handle = create(gpu, 4 * kUnit);
        const Address start = reserve(gpu, 4 * kUnit);
        map(gpu, start, 4 * kUnit, handle);
        byte_at(start + 3 * kUnit) = 7;
        int descriptor = -1;
        EXPECT_EQ(gpu.memory_export(&descriptor, handle, kHandleTypeDescriptor, 0), kSuccess);
        EXPECT_EQ(::fcntl(descriptor, F_GETFD), FD_CLOEXEC);
        line.say(descriptor);
        line.hear();
    });
    const int theirs = maker.line().hear();
    Part importer(environment, [&](const Line& line) {
        const Standin gpu = Standin::start();
        const std::string file = "/proc/" + std::to_string(maker.pid()) + "/fd/" + std::to_string(theirs);
        const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
        Handle handle = 0;
        EXPECT_EQ(gpu.memory_import(&handle, as_pointer(descriptor), kHandleTypeDescriptor), kSuccess);
        ::close(descriptor);
        const Address start = reserve(gpu, 4 * kUnit);
        map(gpu, start, 4 * kUnit, handle);
        EXPECT_EQ(gpu.memory_release(handle), kSuccess);
        EXPECT_EQ(byte_at(start + 3 * kUnit), 7);
        EXPECT_EQ(used(), 128 * kMiB + 4 * kUnit);
        EXPECT_EQ(used_by(maker.pid()), 64 * kMiB + 4 * kUnit);
        EXPECT_EQ(used_by(::getpid()), 64 * kMiB);
        line.say();
        line.hear();
        EXPECT_EQ(byte_at(start + 3 * kUnit), 7) << "it outlives its maker";
        EXPECT_EQ(used(), 64 * kMiB + 4 * kUnit);
        EXPECT_EQ(used_by(::getpid()), 64 * kMiB + 4 * kUnit);
        EXPECT_EQ(gpu.memory_unmap(start, 4 * kUnit), kSuccess);
        EXPECT_EQ(used(), 64 * kMiB);
    });
    importer.line().hear();
    maker.kill();
    importer.line().say();
    EXPECT_EQ(importer.status(), 0);
    EXPECT_EQ(maker.status(), SIGKILL);
}

TEST_F(StandinTest, WorkIsDoneLaterInTheOrderOfItsStream) {
    in_process([] {
        const Standin gpu = Standin::start();
        const Address a = mapped(gpu), b = mapped(gpu), c = mapped(gpu);
        Stream first = nullptr, second = nullptr;
        Event event = nullptr;
        EXPECT_EQ(gpu.stream_create(&first, kStreamNonBlocking), kSuccess);
        EXPECT_EQ(gpu.stream_create(&second, kStreamNonBlocking), kSuccess);
        EXPECT_EQ(gpu.event_create(&event, 0), kSuccess);
        EXPECT_EQ(gpu.event_query(event), kSuccess) << "never recorded";
        EXPECT_EQ(gpu.event_synchronize(event), kSuccess);

        EXPECT_EQ(gpu.hold(first, 1), kSuccess);
        EXPECT_EQ(gpu.work(first, a, kUnit, 1, 1000), kSuccess);
        EXPECT_EQ(gpu.copy_on_device(b, a, kUnit, first), kSuccess);
        EXPECT_EQ(gpu.event_record(event, first), kSuccess);
        EXPECT_EQ(gpu.event_query(event), kNotReady);
        EXPECT_EQ(gpu.work(second, c, kUnit, 3, 0), kSuccess);
        EXPECT_EQ(gpu.stream_synchronize(second), kSuccess);
        EXPECT_EQ(byte_at(c), 3) << "another stream does not wait";
        EXPECT_EQ(byte_at(a), 0) << "not yet";

        EXPECT_EQ(gpu.stream_wait_event(second, event, 0), kSuccess);
        EXPECT_EQ(gpu.copy_on_device(c, b, kUnit, second), kSuccess);
        EXPECT_EQ(gpu.work(first, a, kUnit, 9, 0), kSuccess);
        EXPECT_EQ(gpu.hold(first, 0), kSuccess);
        EXPECT_EQ(gpu.stream_destroy(first), kSuccess);
        EXPECT_EQ(gpu.stream_synchronize(first), kInvalidHandle);
        EXPECT_EQ(gpu.event_synchronize(event), kSuccess);
        EXPECT_EQ(byte_at(b + kUnit - 1), 1);
        EXPECT_EQ(gpu.stream_synchronize(second), kSuccess);
        EXPECT_EQ(byte_at(c), 1) << "it waited for the event";
        EXPECT_EQ(gpu.event_destroy(event), kSuccess);
        EXPECT_EQ(gpu.event_query(event), kInvalidHandle);
    });
}

TEST_F(StandinTest, TheDefaultStreamWaitsForOthersAndTheyForIt) {
    in_process([] {
        const Standin gpu = Standin::start();
        const Address a = mapped(gpu), b = mapped(gpu), c = mapped(gpu);
        Stream stream = nullptr;
        EXPECT_EQ(gpu.stream_create(&stream, 0), kSuccess);
        EXPECT_EQ(gpu.work(stream, a, kUnit, 1, 20'000), kSuccess);
        EXPECT_EQ(gpu.copy_on_device(b, a, kUnit, nullptr), kSuccess);
        EXPECT_EQ(gpu.copy_on_device(c, b, kUnit, stream), kSuccess);
        EXPECT_EQ(gpu.stream_synchronize(stream), kSuccess);
        EXPECT_EQ(byte_at(c), 1);
    });
}

TEST_F(StandinTest, MemoryUnmappedUnderQueuedWorkIsTheEndOfTheContext) {
    for (const bool by_copy : {true, false}) {
        in_process([&] {
            const Standin gpu = Standin::start();
            const Address a = mapped(gpu), b = mapped(gpu);
            EXPECT_EQ(gpu.copy_on_device(a, b + kUnit, kUnit, nullptr), kInvalidValue) << "this is seen at once";
            EXPECT_EQ(gpu.hold(nullptr, 1), kSuccess);
            EXPECT_EQ(by_copy ? gpu.copy_on_device(a, b, kUnit, nullptr) : gpu.work(nullptr, a, kUnit, 1, 0), kSuccess);
            EXPECT_EQ(gpu.memory_unmap(a, kUnit), kSuccess);
            EXPECT_EQ(gpu.stream_synchronize(nullptr), kIllegalAddress);
            Event event = nullptr;
            Handle handle = 0;
            const AllocationProperties properties;
            EXPECT_EQ(gpu.event_create(&event, 0), kIllegalAddress);
            EXPECT_EQ(gpu.memory_create(&handle, kUnit, &properties, 0), kIllegalAddress);
            EXPECT_EQ(gpu.name_of(kIllegalAddress), "CUDA_ERROR_ILLEGAL_ADDRESS");
        });
    }
}

TEST_F(StandinTest, AChildOfForkHasNoDriver) {
    in_process([&] {
        const Standin gpu = Standin::start();
        Part child({}, [&](const Line&) {
            Handle handle = 0;
            const AllocationProperties properties;
            EXPECT_EQ(gpu.init(0), kNotInitialised);
            EXPECT_EQ(gpu.memory_create(&handle, kUnit, &properties, 0), kNotInitialised);
        });
        EXPECT_EQ(child.status(), 0);
        create(gpu);
    });
}

TEST_F(StandinTest, AHandleIsReusedOnlyIfItIsToBe) {
    for (const char* reuse : {"0", "1"}) {
        environment["SALUS_STANDIN_REUSE"] = reuse;
        in_process([&] {
            const Standin gpu = Standin::start();
            const AllocationProperties properties;
            Handle first = 0, second = 0;
            EXPECT_EQ(gpu.memory_create(&first, kUnit, &properties, 0), kSuccess);
            EXPECT_EQ(gpu.memory_release(first), kSuccess);
            EXPECT_EQ(gpu.memory_create(&second, kUnit, &properties, 0), kSuccess);
            EXPECT_EQ(first == second, *reuse == '1');
        });
    }
}

TEST_F(StandinTest, FailsTheCallsItIsToldTo) {
    environment["SALUS_STANDIN_FAIL"] = "cuMemCreate:2,cuMemImportFromShareableHandle:2+";
    in_process([] {
        const Standin gpu = Standin::start();
        const AllocationProperties properties;
        std::vector<Status> created, imported;
        Handle handle = 0;
        for (int i = 0; i < 4; ++i) created.push_back(gpu.memory_create(&handle, kUnit, &properties, 0));
        EXPECT_EQ(created, (std::vector<Status>{kSuccess, kOutOfMemory, kSuccess, kSuccess}));
        int descriptor = -1;
        EXPECT_EQ(gpu.memory_export(&descriptor, handle, kHandleTypeDescriptor, 0), kSuccess);
        for (int i = 0; i < 3; ++i)
            imported.push_back(gpu.memory_import(&handle, as_pointer(descriptor), kHandleTypeDescriptor));
        EXPECT_EQ(imported, (std::vector<Status>{kSuccess, kOutOfMemory, kOutOfMemory}));
    });
}

TEST_F(StandinTest, AStreamIsCapturingWhenATestSaysSo) {
    in_process([] {
        const Standin gpu = Standin::start();
        Stream stream = nullptr;
        int status = -1;
        EXPECT_EQ(gpu.stream_create(&stream, kStreamNonBlocking), kSuccess);
        EXPECT_EQ(gpu.stream_is_capturing(stream, &status), kSuccess);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(gpu.set_capturing(stream, 1), kSuccess);
        EXPECT_EQ(gpu.stream_is_capturing(stream, &status), kSuccess);
        EXPECT_EQ(status, 1);
        EXPECT_NE(gpu.stream_synchronize(stream), kSuccess);
        EXPECT_EQ(gpu.stream_is_capturing(nullptr, &status), kSuccess);
        EXPECT_EQ(status, 0);
    });
}

TEST_F(StandinTest, WithoutAFileAProcessIsAlone) {
    environment["SALUS_STANDIN_STATE"] = "";
    environment["SALUS_STANDIN_MEMORY"] = std::to_string(100 * kMiB);
    for (int i = 0; i < 2; ++i) {
        in_process([] {
            const Standin gpu = Standin::start();
            const Handle handle = create(gpu, 36 * kMiB);
            const AllocationProperties properties;
            Handle other = 0;
            EXPECT_EQ(gpu.memory_create(&other, kUnit, &properties, 0), kOutOfMemory);
            EXPECT_EQ(gpu.memory_release(handle), kSuccess);
            create(gpu, 36 * kMiB);
        });
    }
}

}  // namespace
}  // namespace salus::test
