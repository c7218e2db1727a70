// allocator.cpp between a client and a native allocator that only keep books: test_cuda_allocator.py compiles it against the
// torch at hand, with what it needs of CUDA defined here, and runs each test by name. No memory is behind any address.
#include <algorithm>
#include <map>
#include <thread>

#include "allocator.cpp"

namespace {

constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30;
constexpr size_t kTotal = 8 * kGiB;
constexpr DeviceIndex kDevice = 1;

void check(bool right, const char* what, int line) {
    if (right) return;
    std::fprintf(stderr, "line %d: not so: %s\n", line, what);
    std::exit(1);
}
#define CHECK_THAT(what) check((what), #what, __LINE__)

cudaStream_t stream_of(int64_t number) { return reinterpret_cast<cudaStream_t>(number); }
const cudaStream_t kHome = stream_of(0), kSide = stream_of(7), kCapturing = stream_of(8);
const cudaStream_t kExternal = stream_of(0x5000);
thread_local cudaStream_t current_stream = kHome;
/// As torch numbers them: an external one is its own number, and torch's own are odd.
int64_t id_of(cudaStream_t stream) {
    const auto number = reinterpret_cast<int64_t>(stream);
    return stream == kHome || stream == kExternal ? number : number << 1 | 1;
}
DeviceIndex current_gpu = kDevice;

/// Blocks at addresses from `begin` on. Freed ones stay reserved for others of their size, until they are given back.
struct Books {
    explicit Books(uintptr_t begin) : next(begin), begin(begin) {}
    void* take(size_t size) {
        const std::lock_guard lock(mutex);
        const auto found = kept.find(size);
        uintptr_t address = next;
        if (found != kept.end()) {
            address = found->second;
            kept.erase(found);
        } else {
            next += size;
            reserved += size;
        }
        live[address] = size;
        in_use += size;
        return reinterpret_cast<void*>(address);
    }
    void free(void* block) {
        const std::lock_guard lock(mutex);
        const auto found = live.find(reinterpret_cast<uintptr_t>(block));
        CHECK_THAT(found != live.end());
        in_use -= found->second;
        kept.emplace(found->second, found->first);
        live.erase(found);
    }
    uint64_t give_back() {
        const uint64_t bytes = reserved - in_use;
        reserved = in_use;
        kept.clear();
        ++given_back;
        return bytes;
    }
    bool has(const void* block) const {
        const std::lock_guard lock(mutex);
        const auto address = reinterpret_cast<uintptr_t>(block);
        return address >= begin && address < next;
    }

    mutable std::mutex mutex;
    std::map<uintptr_t, size_t> live;
    std::multimap<size_t, uintptr_t> kept;
    uintptr_t next, begin;
    uint64_t in_use = 0, reserved = 0;
    int given_back = 0;
};

Books client{uintptr_t{1} << 46}, natives{uintptr_t{1} << 45};

void delete_native(void* block) { natives.free(block); }

class Native final : public native::CUDAAllocator {
public:
    DataPtr allocate(size_t size) override {
        void* block = raw_alloc(size);
        return {block, block, &delete_native, c10::Device(c10::kCUDA, current_gpu)};
    }
    void* raw_alloc(size_t size) override {
        const auto over = [&] { return natives.reserved + size > fraction * static_cast<double>(kTotal); };
        if (!natives.kept.contains(size) && over()) {
            natives.give_back();
            if (over()) TORCH_CHECK_WITH(OutOfMemoryError, false, "the native allocator's own limit");
        }
        return natives.take(size);
    }
    void* raw_alloc_with_stream(size_t size, cudaStream_t) override { return raw_alloc(size); }
    void raw_delete(void* block) override { natives.free(block); }
    c10::DeleterFnPtr raw_deleter() const override { return &delete_native; }
    void emptyCache(MempoolId_t) override { natives.give_back(); }
    double getMemoryFraction(DeviceIndex device) override { return device == kDevice ? fraction : 1.0; }
    void setMemoryFraction(double value, DeviceIndex device) override {
        if (device == kDevice) fraction = value;
    }
    DeviceStats getDeviceStats(DeviceIndex) override {
        DeviceStats stats;
        stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current = static_cast<int64_t>(natives.in_use);
        stats.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current = static_cast<int64_t>(natives.reserved);
        return stats;
    }
#if SALUS_TORCH_FROM(10)
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex) override { return {kTotal / 2, kTotal}; }
    std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { return {}; }
#endif
    bool initialized() override { return true; }
    bool isEnabled() const override { return true; }
    void attachOutOfMemoryObserver(native::OutOfMemoryObserver) override {}

    // What no test asks for.
    void init(int) override {}
    void enable(bool) override {}
    void cacheInfo(DeviceIndex, size_t*) override {}
    void* getBaseAllocation(void*, size_t*) override { return nullptr; }
    void recordStream(const DataPtr&, CUDAStream) override {}
#if SALUS_TORCH_FROM(9)
    void recordStream(const DataPtr&, c10::Stream) override {}
#endif
    void copy_data(void*, const void*, size_t) const override {}
    void resetAccumulatedStats(DeviceIndex) override {}
    void resetPeakStats(DeviceIndex) override {}
    void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) override {}
    void endAllocateToPool(DeviceIndex, MempoolId_t) override {}
    void releasePool(DeviceIndex, MempoolId_t) override {}
    native::ShareableHandle shareIpcHandle(void*) override { return {}; }
    std::shared_ptr<void> getIpcDevPtr(std::string) override { return nullptr; }
#if SALUS_TORCH_FROM(11)
    native::SnapshotInfo snapshot(MempoolId_t, bool) override { return {}; }
    void recordHistory(bool, native::CreateContextFn, size_t, native::RecordContext, bool,
                       const std::vector<std::string>&) override {}
#else
    native::SnapshotInfo snapshot(MempoolId_t) override { return {}; }
    void recordHistory(bool, native::CreateContextFn, size_t, native::RecordContext, bool) override {}
#endif
#if SALUS_TORCH_FROM(12)
    void attachOomRejectionObserver(native::OomRejectionObserver) override {}
#endif
    void attachAllocatorTraceTracker(native::AllocatorTraceTracker) override {}
    void enablePeerAccess(DeviceIndex, DeviceIndex) override {}
    cudaError_t memcpyAsync(void*, int, const void*, int, size_t, cudaStream_t, bool) override { return cudaSuccess; }
    std::shared_ptr<native::AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override { return nullptr; }
    native::CheckpointDelta setCheckpointPoolState(DeviceIndex, std::shared_ptr<native::AllocatorState>) override {
        return {};
    }
    std::string name() override { return "native"; }

    double fraction = 1.0;
} below;

salus_status alloc_on(salus_client*, size_t size, void* stream, int, void** block) {
    *block = stream == kHome ? client.take(size) : nullptr;
    return SALUS_OK;
}
salus_status get_usage(salus_client*, salus_usage* usage) {
    usage->in_use = client.in_use;
    usage->reserved = client.reserved;
    return SALUS_OK;
}

std::vector<cudaStream_t> named, waited_for;  ///< to the client, by used_on and wait_for_stream

native::CUDAAllocator& install() {
    salus_torch_api api{};
    api.version = kApiVersion;
    api.device = kDevice;
    api.alloc_on = &alloc_on;
    api.free = [](salus_client*, void* block) { client.free(block); };
    api.used_on = [](salus_client*, const void*, void* stream) { named.push_back(static_cast<cudaStream_t>(stream)); };
    api.wait_for_stream = [](salus_client*, void* stream) { waited_for.push_back(static_cast<cudaStream_t>(stream)); };
    api.owns = [](salus_client*, const void* block) { return client.has(block) ? 1 : 0; };
    api.get_usage = &get_usage;
    api.reset_peaks = [](salus_client*) {};
    api.give_back = [](salus_client*) { return client.give_back(); };
    api.error_text = [] { return ""; };
    native::allocator.store(&below);
    CHECK_THAT(salus_torch_install(&api) == 0);
    return *native::get();
}

using Blocks = std::vector<DataPtr>;

/// Blocks until there are so many, or memory is out; then what was said is returned.
std::string fill(Blocks& blocks, size_t size, size_t most) {
    try {
        while (blocks.size() < most) blocks.push_back(native::get()->allocate(size));
    } catch (const c10::OutOfMemoryError& error) {
        return error.what();
    }
    return "";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
size_t count_of_client(const Blocks& blocks) {
    return static_cast<size_t>(
        std::count_if(blocks.begin(), blocks.end(), [](const DataPtr& b) { return client.has(b.get()); }));
}

// ---------------------------------------------------------------------------------------------------------------- limits

void test_without_a_fraction() {
    native::CUDAAllocator& torch = install();
    Blocks blocks;
    CHECK_THAT(fill(blocks, 256 * kMiB, 20).empty());
    CHECK_THAT(count_of_client(blocks) == 20);
    CHECK_THAT(torch.getMemoryFraction(kDevice) == 1.0);
    CHECK_THAT(client.given_back == 0 && natives.given_back == 0);
}

void test_a_fraction_holds_for_the_clients_blocks() {
    native::CUDAAllocator& torch = install();
    size_t observed = 0;
    torch.attachOutOfMemoryObserver([&](int64_t, size_t size, size_t, size_t) { observed = size; });
    torch.setMemoryFraction(3.0 / 8, kDevice);
    Blocks blocks;
    const std::string said = fill(blocks, 256 * kMiB, 20);
    CHECK_THAT(blocks.size() == 12 && count_of_client(blocks) == 12);
    CHECK_THAT(contains(said, "out of memory") && contains(said, "set_per_process_memory_fraction"));
    CHECK_THAT(contains(said, "3072.00 MiB"));
    CHECK_THAT(observed == 256 * kMiB);
    CHECK_THAT(client.reserved == 3 * kGiB);
    CHECK_THAT(torch.getDeviceStats(kDevice).num_ooms == 1);
    CHECK_THAT(torch.getMemoryFraction(kDevice) == 3.0 / 8);
    blocks.clear();
    CHECK_THAT(fill(blocks, 512 * kMiB, 4).empty());
    blocks.clear();
    torch.setMemoryFraction(1.0, kDevice);
    CHECK_THAT(fill(blocks, 256 * kMiB, 20).empty());
}

void test_a_fraction_holds_for_the_sum() {
    native::CUDAAllocator& torch = install();
    torch.setMemoryFraction(3.0 / 8, kDevice);
    Blocks ours, theirs;
    CHECK_THAT(fill(ours, 256 * kMiB, 8).empty());
    current_stream = kSide;  // blocks of another stream are the native allocator's
    CHECK_THAT(contains(fill(theirs, 256 * kMiB, 20), "set_per_process_memory_fraction"));
    CHECK_THAT(theirs.size() == 4 && count_of_client(theirs) == 0);
    CHECK_THAT(natives.reserved == kGiB);
    try {
        torch.raw_alloc(64 * 1024);  // small ones are, too
        CHECK_THAT(false);
    } catch (const c10::OutOfMemoryError&) {}
    current_stream = kHome;
    CHECK_THAT(contains(fill(ours, 256 * kMiB, 9), "set_per_process_memory_fraction"));
    ours.clear();
    current_stream = kSide;
    CHECK_THAT(fill(theirs, 256 * kMiB, 12).empty());
    void* small = nullptr;
    theirs.pop_back();
    CHECK_THAT((small = torch.raw_alloc_with_stream(64 * 1024, kSide)) != nullptr);
    torch.raw_delete(small);
}

void test_what_is_kept_is_used_before_it_is_given_back() {
    native::CUDAAllocator& torch = install();
    torch.setMemoryFraction(3.0 / 8, kDevice);
    Blocks ours, theirs;
    CHECK_THAT(fill(ours, 256 * kMiB, 12).empty());
    ours.resize(6);
    CHECK_THAT(fill(ours, 256 * kMiB, 12).empty());
    CHECK_THAT(client.given_back == 0 && natives.given_back == 0);
    ours.clear();
    CHECK_THAT(fill(ours, kGiB, 2).empty());  // of another size
    CHECK_THAT(client.given_back == 1 && client.reserved == 2 * kGiB);
    ours.clear();
    current_stream = kSide;
    CHECK_THAT(fill(theirs, 768 * kMiB, 4).empty());
    CHECK_THAT(client.reserved == 0 && natives.reserved == 3 * kGiB);
    theirs.clear();
    current_stream = kHome;
    CHECK_THAT(fill(ours, kGiB, 3).empty());
    CHECK_THAT(natives.reserved == 0);
}

void test_a_fraction_below_what_is_reserved() {
    native::CUDAAllocator& torch = install();
    Blocks blocks;
    CHECK_THAT(fill(blocks, 256 * kMiB, 16).empty());
    torch.setMemoryFraction(3.0 / 8, kDevice);
    CHECK_THAT(torch.allocate(0).get() != blocks[0].get());
    blocks.pop_back();
    CHECK_THAT(fill(blocks, 256 * kMiB, 16).empty());  // where the last one was
    CHECK_THAT(!fill(blocks, 256 * kMiB, 17).empty());
    blocks.clear();
    CHECK_THAT(fill(blocks, 64 * kMiB, 48).empty());
    CHECK_THAT(!fill(blocks, 64 * kMiB, 49).empty());
    CHECK_THAT(client.reserved == 3 * kGiB);
}

void test_a_fraction_from_the_environment() {
    below.fraction = 0.25;
    install();
    Blocks blocks;
    CHECK_THAT(contains(fill(blocks, 256 * kMiB, 20), "2048.00 MiB"));
    CHECK_THAT(blocks.size() == 8);
}

void test_a_fraction_of_another_gpu() {
    native::CUDAAllocator& torch = install();
    torch.setMemoryFraction(0.25, 0);
    Blocks blocks;
    CHECK_THAT(fill(blocks, 256 * kMiB, 20).empty());
    CHECK_THAT(torch.getMemoryFraction(kDevice) == 1.0);
    torch.setMemoryFraction(0.5, kDevice);
    current_gpu = 0;
    CHECK_THAT(torch.raw_alloc(kMiB) != nullptr);
}

// ----------------------------------------------------------------------------------------------------------------- pools

bool is_clients(size_t size = 4 * kMiB) { return client.has(native::get()->allocate(size).get()); }
bool is_clients_on(cudaStream_t stream) {
    current_stream = stream;
    const bool is = is_clients();
    current_stream = kHome;
    return is;
}

/// As torch's graphs do it: the filter wants the stream whose capture is under way.
struct Capture {
    explicit Capture(MempoolId_t pool) : pool(pool) {
        current_stream = kCapturing;
        native::get()->beginAllocateToPool(kDevice, pool, [this](cudaStream_t stream) {
            ++asked;
            if (broken) throw std::runtime_error("a stream that is captured implicitly");
            return capturing && stream == kCapturing;
        });
        capturing = true;
        current_stream = kHome;
    }
    MempoolId_t pool;
    bool capturing = false, broken = false;
    int asked = 0;
};

void test_a_capture_that_ends() {
    native::CUDAAllocator& torch = install();
    CHECK_THAT(is_clients());
    Capture capture({0, 1});
    CHECK_THAT(!is_clients_on(kCapturing));
    capture.capturing = false;
    torch.endAllocateToPool(kDevice, capture.pool);
    const int asked = capture.asked;
    CHECK_THAT(is_clients());
    CHECK_THAT(capture.asked == asked);
}

void test_a_capture_that_fails() {
    install();
    Capture capture({0, 1});
    CHECK_THAT(!is_clients_on(kCapturing));
    capture.capturing = false;  // nobody says that the pool is closed
    CHECK_THAT(is_clients());
    Capture next({0, 2});
    CHECK_THAT(!is_clients_on(kCapturing));
    next.capturing = false;
    native::get()->endAllocateToPool(kDevice, next.pool);
    CHECK_THAT(is_clients());
}

void test_a_capture_in_another_thread() {
    install();
    std::unique_ptr<Capture> capture;
    std::thread([&] { capture = std::make_unique<Capture>(MempoolId_t{0, 1}); }).join();
    CHECK_THAT(!is_clients());
    capture->capturing = false;
    CHECK_THAT(is_clients());
}

void test_a_pool_of_a_thread() {
    install();
    const auto opener = std::this_thread::get_id();
    native::get()->beginAllocateToPool(kDevice, {1, 0}, [=](cudaStream_t) { return std::this_thread::get_id() == opener; });
    CHECK_THAT(!is_clients());
    std::thread([] { CHECK_THAT(is_clients()); }).join();
    native::get()->endAllocateToPool(kDevice, {1, 0});
    CHECK_THAT(is_clients());
}

void test_a_filter_that_throws() {
    install();
    Capture capture({0, 1});
    capture.broken = true;
    CHECK_THAT(!is_clients());
    capture.broken = capture.capturing = false;
    CHECK_THAT(is_clients());
}

void test_a_pool_on_another_gpu() {
    install();
    native::get()->beginAllocateToPool(0, {1, 0}, [](cudaStream_t) { return true; });
    CHECK_THAT(is_clients());
    native::get()->endAllocateToPool(0, {1, 0});
    CHECK_THAT(is_clients());
}

void test_threads_while_pools_come_and_go() {
    install();
    std::atomic<bool> done{false};
    std::atomic<int> of_client{0}, of_native{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            while (!done) ++(is_clients() ? of_client : of_native);
        });
    }
    for (uint64_t number = 1; number <= 2000 || of_client == 0; ++number) {
        native::get()->beginAllocateToPool(kDevice, {0, number}, [](cudaStream_t) { return false; });
        if (number > 100) native::get()->endAllocateToPool(kDevice, {0, number});
    }
    done = true;
    for (std::thread& thread : threads) thread.join();
    CHECK_THAT(of_native == 0);
}

// -------------------------------------------------------------------------------------------------------- external streams

void test_an_external_stream_is_named_to_the_client_only_while_it_is_there() {
    native::CUDAAllocator& torch = install();
    const auto used_on = [&](const DataPtr& block, cudaStream_t stream) {
        torch.recordStream(block,
                           CUDAStream(CUDAStream::UNCHECKED,
                                      c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, kDevice), id_of(stream))));
    };
    current_stream = kExternal;
    CHECK_THAT(!client.has(torch.allocate(4 * kMiB).get()));
    void* block = torch.raw_alloc_with_stream(4 * kMiB, kExternal);
    CHECK_THAT(!client.has(block));
    torch.raw_delete(block);
    current_stream = kHome;
    DataPtr ours = torch.allocate(4 * kMiB);
    DataPtr other = torch.allocate(4 * kMiB);
    CHECK_THAT(client.has(ours.get()) && client.has(other.get()));
    used_on(ours, kSide);
    used_on(ours, kExternal);
    CHECK_THAT(named == std::vector{kSide});
    other.clear();
    CHECK_THAT(waited_for.empty());
    ours.clear();
    CHECK_THAT(waited_for == std::vector{kExternal});
    torch.allocate(4 * kMiB).clear();  // the same address again
    CHECK_THAT(waited_for.size() == 1);
}

#define TEST_NAMED(name) \
    { #name, &test_##name }
const std::map<std::string, void (*)()> tests{
    TEST_NAMED(without_a_fraction),
    TEST_NAMED(a_fraction_holds_for_the_clients_blocks),
    TEST_NAMED(a_fraction_holds_for_the_sum),
    TEST_NAMED(what_is_kept_is_used_before_it_is_given_back),
    TEST_NAMED(a_fraction_below_what_is_reserved),
    TEST_NAMED(a_fraction_from_the_environment),
    TEST_NAMED(a_fraction_of_another_gpu),
    TEST_NAMED(a_capture_that_ends),
    TEST_NAMED(a_capture_that_fails),
    TEST_NAMED(a_capture_in_another_thread),
    TEST_NAMED(a_pool_of_a_thread),
    TEST_NAMED(a_filter_that_throws),
    TEST_NAMED(a_pool_on_another_gpu),
    TEST_NAMED(threads_while_pools_come_and_go),
    TEST_NAMED(an_external_stream_is_named_to_the_client_only_while_it_is_there),
};

}  // namespace

// What libc10_cuda and libcudart have, as far as it is asked for.
namespace c10::cuda {
DeviceIndex current_device() { return current_gpu; }
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
    return CUDAStream(CUDAStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kCUDA, device), id_of(current_stream)));
}
// Of one version and of another.
void c10_cuda_check_implementation(int32_t, const char*, const char*, int32_t, bool) {}
void c10_cuda_check_implementation(int32_t, const char*, const char*, uint32_t, bool) {}
cudaStream_t CUDAStream::stream() const { return stream_of((id() & 1) != 0 ? id() >> 1 : id()); }
namespace CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator;
}
}  // namespace c10::cuda
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    *free = kTotal / 2;
    *total = kTotal;
    return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, size_t, cudaStream_t) { return cudaSuccess; }

/// With a name, that test; without, the names.
int main(int count, char** words) {
    for (const auto& [name, test] : tests) {
        if (count < 2) std::puts(name.c_str());
        else if (name == words[1]) return test(), 0;
    }
    return count < 2 ? 0 : 2;
}
