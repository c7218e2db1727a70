// The store of a GPU, by the driver's own interface: a real one, or the stand-in of tests/standin.
#include <dlfcn.h>
#include <sys/types.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "device/cuda/driver.h"
#include "tests/concurrency/store.h"
#include "tests/standin/extras.h"

namespace salus::concurrency {
namespace {

using namespace device::cuda;
using Graph = void*;

/// What a real driver has beyond the part that Salus uses, for captures and for looking at memory.
#define SALUS_GPU_FUNCTIONS(X)                                                                               \
    X(fill, "cuMemsetD8Async", (Address start, unsigned char value, std::size_t size, Stream stream))        \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void* to, Address from, std::size_t size))                           \
    X(begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                   \
    X(end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                                     \
    X(instantiate, "cuGraphInstantiateWithFlags", (Graph * runnable, Graph graph, unsigned long long flags)) \
    X(launch, "cuGraphLaunch", (Graph runnable, Stream stream))                                              \
    X(destroy_runnable, "cuGraphExecDestroy", (Graph runnable))                                              \
    X(destroy_graph, "cuGraphDestroy", (Graph graph))

/// libcuda.so.1, loaded. Either the functions of the stand-in are there, or those of a real driver.
struct Gpu {
#define SALUS_GPU_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
    SALUS_CUDA_FUNCTIONS(SALUS_GPU_MEMBER)
    SALUS_STANDIN_FUNCTIONS(SALUS_GPU_MEMBER)
    SALUS_GPU_FUNCTIONS(SALUS_GPU_MEMBER)
#undef SALUS_GPU_MEMBER

    Gpu() {
        void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) fail("%s", ::dlerror());
#define SALUS_GPU_LOOK_UP(member, symbol, parameters) member = reinterpret_cast<decltype(member)>(::dlsym(library, symbol));
        SALUS_CUDA_FUNCTIONS(SALUS_GPU_LOOK_UP)
        SALUS_STANDIN_FUNCTIONS(SALUS_GPU_LOOK_UP)
        SALUS_GPU_FUNCTIONS(SALUS_GPU_LOOK_UP)
#undef SALUS_GPU_LOOK_UP
    }
    bool is_standin() const { return work != nullptr; }
    void check(Status status, const char* call) const {
        const char* name = nullptr;
        if (status == kSuccess) return;
        error_name(status, &name);
        fail("%s: %d, %s", call, status, name ? name : "an unknown error");
    }
};
#define SALUS_GPU(gpu, call) (gpu).check((gpu).call, #call)

Address address_of(const Block& block) { return reinterpret_cast<Address>(block.start); }

/// Each version is one byte, everywhere.
unsigned char value_of(const Block& block) { return static_cast<unsigned char>(1 + mix(block.seed, block.version) % 255); }

class CudaStore : public Store {
public:
    CudaStore(salus_client* client, std::uint64_t seed) : client_(client) {
        SALUS_GPU(gpu_, init(0));
        SALUS_GPU(gpu_, device_count(&devices_));
        for (int device = 0; device < std::min(devices_, 2); ++device) {
            contexts_.emplace_back();
            SALUS_GPU(gpu_, retain_primary_context(&contexts_.back(), device));
        }
        SALUS_GPU(gpu_, set_current(contexts_[0]));
        for (Stream& stream : streams_) SALUS_GPU(gpu_, stream_create(&stream, kStreamNonBlocking));
        if (seed % 2 == 0) streams_[0] = nullptr;  // the default stream is at home
        SALUS_GPU(gpu_, stream_create(&captured_, kStreamNonBlocking));
    }

    void enter_thread() override { SALUS_GPU(gpu_, set_current(contexts_[0])); }
    unsigned streams() const override { return static_cast<unsigned>(std::size(streams_)); }

    Block allocate(const Request& request) override {
        Block block{.size = request.size, .seed = request.seed, .stream = streams_[request.stream]};
        block.last_stream = block.stream;
        const salus_status status =
            salus_alloc_on(client_, request.size, block.stream, request.on_behalf ? 1 : 0, &block.start);
        if (status == SALUS_TOO_LARGE) ++denied_;
        else must(status, "salus_alloc_on");
        if (!block.start) allocate_native(block);
        return block;
    }

    void write(Block& block, unsigned stream) override {
        go_to(block, streams_[stream]);
        ++block.version;
        fill(block, block.size, value_of(block));
    }

    std::uint64_t read(const Block& block) override {
        const std::shared_lock lock(captures_);
        SALUS_GPU(gpu_, stream_synchronize(block.last_stream));
        std::uint64_t digest = mix(block.seed, block.version);
        if (gpu_.is_standin()) {
            for_parts(block.size, [&](std::size_t offset, std::size_t size) {
                digest = look_at(block, static_cast<const unsigned char*>(block.start) + offset, size, offset, digest);
            });
        } else {
            thread_local std::vector<unsigned char> copy;
            copy.resize(block.size);
            SALUS_GPU(gpu_, copy_to_host(copy.data(), address_of(block), block.size));
            digest = look_at(block, copy.data(), block.size, 0, digest);
        }
        return digest;
    }

    void free(Block& block) override {
        if (block.is_native) free_native(block);
        else salus_free(client_, block.start);
        block.start = nullptr;
    }

    void corrupt(Block& block) override {
        SALUS_GPU(gpu_, stream_synchronize(block.last_stream));
        fill(block, 4096, static_cast<unsigned char>(value_of(block) ^ 1));
    }

    /// The stand-in only says that a stream is being captured: the home stream or another. On a real GPU it is one that
    /// nobody else uses.
    void capture(Block& block, const std::function<void()>& then) override {
        const std::unique_lock lock(captures_);
        if (gpu_.is_standin()) {
            const Stream stream = streams_[block.seed % streams()];
            SALUS_GPU(gpu_, set_capturing(stream, 1));
            then();
            SALUS_GPU(gpu_, set_capturing(stream, 0));
            return write(block, 0);
        }
        go_to(block, captured_);
        ++block.version;
        Graph graph = nullptr, runnable = nullptr;
        SALUS_GPU(gpu_, begin_capture(captured_, kCaptureModeOfThread));
        SALUS_GPU(gpu_, fill(address_of(block), value_of(block), block.size, captured_));
        then();
        SALUS_GPU(gpu_, end_capture(captured_, &graph));
        SALUS_GPU(gpu_, instantiate(&runnable, graph, 0));
        SALUS_GPU(gpu_, launch(runnable, captured_));
        SALUS_GPU(gpu_, stream_synchronize(captured_));
        SALUS_GPU(gpu_, destroy_runnable(runnable));
        SALUS_GPU(gpu_, destroy_graph(graph));
    }

    void elsewhere(const std::function<void()>& then) override {
        SALUS_GPU(gpu_, set_current(contexts_.back()));
        then();
        SALUS_GPU(gpu_, set_current(contexts_.front()));
    }

private:
    static constexpr int kCaptureModeOfThread = 1;
    static constexpr std::size_t kPart = 16 << 10;
    static constexpr std::size_t kGranularity = 2 << 20;

    /// The stand-in's memory is written and read in part: its beginning, its end, and what lies between at wide steps.
    template <typename Use>
    static void for_parts(std::size_t size, const Use& use) {
        for (std::size_t offset = 0; offset < size; offset += (std::size_t{1} << 20) - kPart) {
            use(offset, std::min(kPart, size - offset));
        }
    }

    void fill(const Block& block, std::size_t size, unsigned char value) {
        if (!gpu_.is_standin()) {
            SALUS_GPU(gpu_, fill(address_of(block), value, size, block.last_stream));
            return;
        }
        // Mostly short; sometimes it is still under way when the block has long been freed.
        const std::uint64_t chance = mix(block.seed, block.version + 77);
        const auto microseconds = static_cast<unsigned>(chance / 16 % (chance % 16 == 0 ? 600 : 50));
        for_parts(size, [&](std::size_t offset, std::size_t part) {
            SALUS_GPU(gpu_,
                      work(block.last_stream, address_of(block) + offset, part, value, offset == 0 ? microseconds : 0));
        });
    }

    static std::uint64_t look_at(const Block& block, const unsigned char* bytes, std::size_t size, std::size_t offset,
                                 std::uint64_t digest) {
        const unsigned char wanted = value_of(block);
        for (std::size_t i = 0; i < size; ++i) {
            if (bytes[i] == wanted) continue;
            fail("block %p of %zu KiB, version %llu, byte %zu: found %u, not %u", block.start, block.size >> 10,
                 static_cast<unsigned long long>(block.version), offset + i, unsigned{bytes[i]}, unsigned{wanted});
        }
        return (digest ^ bytes[0]) * 0x100000001b3ull;
    }

    /// What comes on this stream comes after what was done with the block so far.
    void go_to(Block& block, Stream stream) {
        if (!block.is_native && stream != block.stream &&
            std::find(block.told.begin(), block.told.end(), stream) == block.told.end()) {
            salus_used_on(client_, block.start, stream);
            block.told.push_back(stream);
        }
        if (stream == block.last_stream) return;
        Event event = nullptr;
        SALUS_GPU(gpu_, event_create(&event, 2));
        SALUS_GPU(gpu_, event_record(event, block.last_stream));
        SALUS_GPU(gpu_, stream_wait_event(stream, event, 0));
        SALUS_GPU(gpu_, event_destroy(event));
        block.last_stream = stream;
    }

    /// As the framework's own allocator would.
    void allocate_native(Block& block) {
        const AllocationProperties properties;
        const AccessDescription access;
        const std::size_t size = native_size(block);
        Address start = 0;
        Handle memory = 0;
        SALUS_GPU(gpu_, address_reserve(&start, size, kGranularity, 0, 0));
        SALUS_GPU(gpu_, memory_create(&memory, size, &properties, 0));
        SALUS_GPU(gpu_, memory_map(start, size, 0, memory, 0));
        SALUS_GPU(gpu_, memory_set_access(start, size, &access, 1));
        SALUS_GPU(gpu_, memory_release(memory));
        block.start = reinterpret_cast<void*>(start);
        block.is_native = true;
    }
    void free_native(const Block& block) {
        const std::shared_lock lock(captures_);
        SALUS_GPU(gpu_, stream_synchronize(block.last_stream));
        SALUS_GPU(gpu_, memory_unmap(address_of(block), native_size(block)));
        SALUS_GPU(gpu_, address_free(address_of(block), native_size(block)));
    }
    static std::size_t native_size(const Block& block) {
        return (block.size + kGranularity - 1) / kGranularity * kGranularity;
    }

    salus_client* client_;
    Gpu gpu_;
    int devices_ = 0;
    std::vector<Context> contexts_;
    Stream streams_[3] = {};
    Stream captured_ = nullptr;
    std::shared_mutex captures_;  ///< while one goes on, nobody can wait for a stream
};

}  // namespace

std::unique_ptr<Store> make_cuda_store(salus_client* client, std::uint64_t seed) {
    return std::make_unique<CudaStore>(client, seed);
}

}  // namespace salus::concurrency
