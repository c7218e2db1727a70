// torch's CUDA allocator, with Salus in front of it: an object of torch's own interface that serves large blocks of one GPU
// from the client's memory, and hands everything else to the allocator that was there before. It is compiled against the
// installed torch on first use (__init__.py), since that interface is C++ and differs from version to version.
#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "salus.h"
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

// A later version may have one more function, and a function that is not forwarded would be lost silently.
#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 8 || TORCH_VERSION_MINOR > 15
#error "the allocator interface of this version of torch is not known"
#endif
#define SALUS_TORCH_FROM(minor) (TORCH_VERSION_MINOR >= (minor))

extern "C" {

/// What __init__.py passes: functions of libsalus, so that this object is not linked to it.
struct salus_torch_api {
    uint64_t version;  // kApiVersion
    int64_t device;    // torch's index of the GPU that the service shares
    salus_client* client;
    decltype(&salus_alloc_on) alloc_on;
    decltype(&salus_free) free;
    decltype(&salus_used_on) used_on;
    decltype(&salus_wait_for_stream) wait_for_stream;
    decltype(&salus_owns) owns;
    decltype(&salus_get_usage) get_usage;
    decltype(&salus_reset_peaks) reset_peaks;
    decltype(&salus_give_back) give_back;
    decltype(&salus_error_text) error_text;
};

/// Returns 0 or a Refusal. Call it once, before the first block is allocated.
__attribute__((visibility("default"))) int salus_torch_install(const salus_torch_api* api);

}  // extern "C"

namespace {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::cuda::CUDAStream;
using c10::cuda::MempoolId_t;
namespace native = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr uint64_t kApiVersion = 3;
constexpr size_t kSmallest = size_t{1} << 20;
constexpr size_t kLargest = size_t{1} << 60;  // beyond that, torch raises its own error
constexpr uint64_t kNoLimit = UINT64_MAX;

enum Refusal : int { kOtherVersion = 1, kNoAllocator, kCachingIsOff, kInstalledBefore, kFailed };

/// autograd's threads work for a thread that is inside an iteration and waits for them.
bool is_autograd_thread() {
    thread_local const bool is_one = [] {
        char name[16] = "";
        return ::pthread_getname_np(::pthread_self(), name, sizeof name) == 0 &&
               std::string_view(name).substr(0, 12) == "pt_autograd_";
    }();
    return is_one;
}

/// Note [One deleter]
/// torch assumes that every block of the current allocator has the deleter that raw_deleter() names: CUDA graph trees check
/// it, and raw_deallocate() calls it. So blocks of the native allocator get our deleter, too, which tells them apart. But in
/// recordStream() the native allocator ignores blocks whose deleter is not its own, so it is passed a DataPtr with its own
/// deleter (Borrowed).
void delete_block(void* block);

class Borrowed {
public:
    Borrowed(const DataPtr& of, c10::DeleterFnPtr deleter) : pointer_(of.get(), of.get_context(), deleter, of.device()) {}
    ~Borrowed() { pointer_.release_context(); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    const DataPtr& operator*() const { return pointer_; }

private:
    DataPtr pointer_;
};

/// Thread-safe, as the allocator behind it is. Never destroyed: blocks may be freed very late in the process's end.
class Allocator final : public native::CUDAAllocator {
public:
    Allocator(const salus_torch_api& api, native::CUDAAllocator* behind)
        : salus_(api),
          device_(static_cast<DeviceIndex>(api.device)),
          native_(behind),
          native_deleter_(behind->raw_deleter()) {
        note_fraction();
    }

    // ------------------------------------------------------------------------------------------------------- blocks

    DataPtr allocate(size_t size) override {
        if (void* block = serve(size)) return {block, block, &delete_block, c10::Device(c10::kCUDA, device_)};
        return with_our_deleter(from_native(size, [&] { return native_->allocate(size); }));
    }
    void* raw_alloc(size_t size) override {
        void* block = serve(size);
        return block != nullptr ? block : from_native(size, [&] { return native_->raw_alloc(size); });
    }
    void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
        // For a stream other than the current one, we cannot tell whether it lasts.
        void* block = is_for_us(size) && stream == lasting_stream() ? serve_on(size, stream) : nullptr;
        return block != nullptr ? block : from_native(size, [&] { return native_->raw_alloc_with_stream(size, stream); });
    }
    void raw_delete(void* block) override {
        if (!free_ours(block)) native_->raw_delete(block);
    }
    c10::DeleterFnPtr raw_deleter() const override {
        // While caching is off, the native allocator has another deleter and serves everything.
        const c10::DeleterFnPtr current = native_->raw_deleter();
        return current == native_deleter_ ? &delete_block : current;
    }
    void delete_any(void* block) {
        if (!free_ours(block)) native_deleter_(block);
    }

    void recordStream(const DataPtr& block, CUDAStream stream) override {
        if (is_ours(block.get())) {
            if (is_external(stream)) return note_external(block.get(), stream.stream());
            salus_.used_on(salus_.client, block.get(), stream.stream());
        } else if (block.get_deleter() == &delete_block) {
            native_->recordStream(*Borrowed(block, native_deleter_), stream);  // Note [One deleter]
        } else {
            native_->recordStream(block, stream);
        }
    }
#if SALUS_TORCH_FROM(9)
    void recordStream(const DataPtr& block, c10::Stream stream) override { recordStream(block, CUDAStream(stream)); }
#endif

    bool is_simple_data_ptr(const DataPtr& block) const override { return native_->is_simple_data_ptr(block); }
    void copy_data(void* to, const void* from, size_t count) const override { native_->copy_data(to, from, count); }

    void* getBaseAllocation(void* block, size_t* size) override {
        refuse_to_share(block);
        return native_->getBaseAllocation(block, size);
    }
    native::ShareableHandle shareIpcHandle(void* block) override {
        refuse_to_share(block);
        return native_->shareIpcHandle(block);
    }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return native_->getIpcDevPtr(std::move(handle)); }

    cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t count, cudaStream_t stream,
                            bool p2p_enabled) override {
        // Our memory is mapped only for its own GPU, which the native allocator does not know.
        if (to_device != from_device && (is_ours(to) || is_ours(from))) {
            return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
        }
        return native_->memcpyAsync(to, to_device, from, from_device, count, stream, p2p_enabled);
    }

    // --------------------------------------------------------------------------------------------------- statistics

    DeviceStats getDeviceStats(DeviceIndex device) override {
        DeviceStats stats = native_->getDeviceStats(device);
        if (device == device_) add_ours(stats);
        return stats;
    }
    void resetAccumulatedStats(DeviceIndex device) override {
        native_->resetAccumulatedStats(device);
        if (device != device_) return;
        const std::lock_guard lock(mutex_);
        accumulated_before_ = usage();
        out_of_memory_ = retries_ = 0;
    }
    void resetPeakStats(DeviceIndex device) override {
        native_->resetPeakStats(device);
        if (device != device_) return;
        salus_.reset_peaks(salus_.client);
        live_peak_ = live_.load();
    }

    void attachOutOfMemoryObserver(native::OutOfMemoryObserver observer) override {
        {
            const std::lock_guard lock(mutex_);
            observers_.push_back(observer);
        }
        native_->attachOutOfMemoryObserver(std::move(observer));
    }

    // -------------------------------------------------------------------------------------------------------- pools

    void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
        native_->beginAllocateToPool(device, pool, filter);
        if (device != device_) return;
        const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
        const std::lock_guard lock(pools_mutex_);
        pools_.push_back({pool, stream, std::move(filter)});
        open_pools_.store(pools_.size(), std::memory_order_relaxed);
    }
    void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
        native_->endAllocateToPool(device, pool);
        if (device != device_) return;
        const std::lock_guard lock(pools_mutex_);
        std::erase_if(pools_, [&](const OpenPool& open) { return open.id == pool; });
        open_pools_.store(pools_.size(), std::memory_order_relaxed);
    }
    native::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                   std::shared_ptr<native::AllocatorState> state) override {
        native::CheckpointDelta delta = native_->setCheckpointPoolState(device, std::move(state));
        for (DataPtr& block : delta.dataptrs_allocd) block = with_our_deleter(std::move(block));
        return delta;
    }
    std::shared_ptr<native::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override {
        return native_->getCheckpointState(device, pool);
    }
    void releasePool(DeviceIndex device, MempoolId_t pool) override { native_->releasePool(device, pool); }
    int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override { return native_->getPoolUseCount(device, pool); }
    bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool, const std::unordered_set<void*>& expected) override {
        return native_->checkPoolLiveAllocations(device, pool, expected);
    }
#if SALUS_TORCH_FROM(11)
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<native::CUDAAllocator> from) override {
        native_->createOrIncrefPool(device, pool, std::move(from));
    }
    void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override { native_->setUseOnOOM(device, pool, use); }
#else
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, native::CUDAAllocator* from) override {
        native_->createOrIncrefPool(device, pool, from);
    }
    void setUseOnOOM(DeviceIndex device, MempoolId_t pool) override { native_->setUseOnOOM(device, pool); }
#endif
#if SALUS_TORCH_FROM(10)
    void setNoSplit(DeviceIndex device, MempoolId_t pool) override { native_->setNoSplit(device, pool); }
#endif
#if SALUS_TORCH_FROM(13)
    void markCaptureBegin(DeviceIndex device) override { native_->markCaptureBegin(device); }
    void markCaptureEnd(DeviceIndex device) override { native_->markCaptureEnd(device); }
    DataPtr allocateWithAddress(size_t size, void* address) override {
        return with_our_deleter(native_->allocateWithAddress(size, address));
    }
#endif

    // ------------------------------------------------------------------------------------- the native one's affairs

    void init(int device_count) override {
        native_->init(device_count);
        note_fraction();
    }
    bool initialized() override { return native_->initialized(); }
    std::string name() override { return native_->name(); }
    void enable(bool value) override { native_->enable(value); }
    bool isEnabled() const override { return native_->isEnabled(); }
    void emptyCache(MempoolId_t pool) override {
        native_->emptyCache(pool);
        salus_.give_back(salus_.client);
    }
    void cacheInfo(DeviceIndex device, size_t* largest) override { native_->cacheInfo(device, largest); }
    double getMemoryFraction(DeviceIndex device) override { return native_->getMemoryFraction(device); }
    void setMemoryFraction(double fraction, DeviceIndex device) override {
        native_->setMemoryFraction(fraction, device);
        if (device == device_) set_limit(fraction);
    }
    void enablePeerAccess(DeviceIndex from, DeviceIndex to) override { native_->enablePeerAccess(from, to); }
    void attachAllocatorTraceTracker(native::AllocatorTraceTracker tracker) override {
        native_->attachAllocatorTraceTracker(std::move(tracker));
    }
    bool isHistoryEnabled() override { return native_->isHistoryEnabled(); }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& entries) override {
        native_->recordAnnotation(entries);
    }
    void pushCompileContext(std::string& text) override { native_->pushCompileContext(text); }
    void popCompileContext() override { native_->popCompileContext(); }
#if SALUS_TORCH_FROM(11)
    native::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override { return native_->snapshot(pool, traces); }
    void recordHistory(bool enabled, native::CreateContextFn recorder, size_t entries, native::RecordContext when,
                       bool clear, const std::vector<std::string>& skip) override {
        native_->recordHistory(enabled, recorder, entries, when, clear, skip);
    }
#else
    native::SnapshotInfo snapshot(MempoolId_t pool) override { return native_->snapshot(pool); }
    void recordHistory(bool enabled, native::CreateContextFn recorder, size_t entries, native::RecordContext when,
                       bool clear) override {
        native_->recordHistory(enabled, recorder, entries, when, clear);
    }
#endif
#if SALUS_TORCH_FROM(10)
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override { return native_->getMemoryInfo(device); }
    std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
        return native_->getExpandableSegmentSizes(device);
    }
    void setUserMetadata(const std::string& text) override { native_->setUserMetadata(text); }
    std::string getUserMetadata() override { return native_->getUserMetadata(); }
#endif
#if SALUS_TORCH_FROM(12)
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* block) override {
        return is_ours(block) ? nullptr : native_->getContextForPointer(block);
    }
    void attachOomRejectionObserver(native::OomRejectionObserver observer) override {
        native_->attachOomRejectionObserver(std::move(observer));
    }
#endif
#if SALUS_TORCH_FROM(14)
    bool supportsUserMetadata() override { return native_->supportsUserMetadata(); }
    void annotateMemory(const void* block, const std::string& text) override {
        if (!is_ours(block)) native_->annotateMemory(block, text);
    }
#endif

private:
    /// Called for every block that torch frees. Most belong to the native allocator, and lie far from ours.
    bool is_ours(const void* block) const {
        const auto address = reinterpret_cast<uintptr_t>(block);
        if (address < begin_ || address >= end_) return false;
        return salus_.owns(salus_.client, block) != 0;
    }
    void note_place(const void* block, size_t size) {
        const auto address = reinterpret_cast<uintptr_t>(block);
        for (uintptr_t begin = begin_; address < begin && !begin_.compare_exchange_weak(begin, address);) {}
        for (uintptr_t end = end_; address + size > end && !end_.compare_exchange_weak(end, address + size);) {}
    }

    bool is_for_us(size_t size) const {
        return size >= kSmallest && size < kLargest && native_->isEnabled() && c10::cuda::current_device() == device_;
    }

    // Note [Open pools]
    // The native allocator serves blocks for a private pool. That covers the capture of a graph, which uses such a pool. A
    // failed capture never closes its pool, so counting open pools does not work. Instead we do as the native allocator
    // does: we ask each pool's filter whether it wants blocks of this stream; the filter of a failed capture does not. We
    // also ask it about the stream on which the pool was opened. If it wants that one, a capture may be in progress in
    // another thread, and our work for a block, such as waiting for the GPU, could spoil the capture.
    struct OpenPool {
        MempoolId_t id;
        cudaStream_t opened_on;
        std::function<bool(cudaStream_t)> filter;
    };
    bool is_for_a_pool(cudaStream_t stream) {
        if (open_pools_.load(std::memory_order_relaxed) == 0) return false;
        const std::lock_guard lock(pools_mutex_);
        for (const OpenPool& open : pools_) {
            // If the filter cannot be asked about this stream, the native allocator asks as well and raises the right error.
            if (wants(open, stream, true) || (stream != open.opened_on && wants(open, open.opened_on, false))) return true;
        }
        return false;
    }
    static bool wants(const OpenPool& open, cudaStream_t stream, bool otherwise) {
        try {
            return open.filter(stream);
        } catch (const std::exception&) {
            return otherwise;
        }
    }

    /// A block of ours, or nullptr: then the native allocator must serve it.
    void* serve(size_t size) {
        if (!is_for_us(size)) return nullptr;
        const std::optional<cudaStream_t> stream = lasting_stream();
        return stream ? serve_on(size, *stream) : nullptr;
    }

    void* serve_on(size_t size, cudaStream_t stream) {
        if (is_for_a_pool(stream)) return nullptr;
        return within_limit(size, [&] { return take(size, stream); });
    }

    void* take(size_t size, cudaStream_t stream) {
        void* block = nullptr;
        const int on_behalf = is_autograd_thread() ? 1 : 0;
        salus_status status = salus_.alloc_on(salus_.client, size, stream, on_behalf, &block);
        if (status == SALUS_TOO_LARGE) {
            ++retries_;
            native_->emptyCache({0, 0});
            status = salus_.alloc_on(salus_.client, size, stream, on_behalf, &block);
            if (status == SALUS_TOO_LARGE) throw_out_of_memory(size, salus_.error_text());
        }
        // Any other error is no reason to fail: the native allocator serves the block.
        if (status != SALUS_OK || block == nullptr) return nullptr;
        note_place(block, size);
        const int64_t live = ++live_;
        for (int64_t peak = live_peak_; peak < live && !live_peak_.compare_exchange_weak(peak, live);) {}
        if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) {
            (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
        }
        return block;
    }

    bool free_ours(void* block) {
        if (!is_ours(block)) return false;
        if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) {
            (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block));
        }
        --live_;
        if (any_external_.load(std::memory_order_relaxed)) wait_for_external(block);
        salus_.free(salus_.client, block);
        return true;
    }

    // Note [Streams that end]
    // torch's own streams last as long as the process. A stream created by somebody else (torch.cuda.ExternalStream) may be
    // destroyed at any time, and a driver call that names it after that crashes. Salus looks at streams until the next
    // boundary, so it is never told of an external stream. The native allocator serves blocks allocated on one. Before a
    // block is freed that work on an external stream also uses, the home stream is made to wait for that work. (The native
    // allocator names the stream at that point, too.)
    static bool is_external(const CUDAStream& stream) {
        const auto id = static_cast<uintptr_t>(stream.id());
        return id != 0 && id == reinterpret_cast<uintptr_t>(stream.stream());
    }
    /// The current stream; nothing if it is external.
    std::optional<cudaStream_t> lasting_stream() const {
        const CUDAStream stream = c10::cuda::getCurrentCUDAStream(device_);
        if (is_external(stream)) return std::nullopt;
        return stream.stream();
    }
    void note_external(void* block, cudaStream_t stream) {
        const std::lock_guard lock(mutex_);
        external_.emplace_back(block, stream);
        any_external_ = true;
    }
    void wait_for_external(const void* block) {
        std::vector<cudaStream_t> streams;
        {
            const std::lock_guard lock(mutex_);
            std::erase_if(external_, [&](const auto& use) {
                if (use.first == block) streams.push_back(use.second);
                return use.first == block;
            });
            any_external_ = !external_.empty();
        }
        for (const cudaStream_t stream : streams) salus_.wait_for_stream(salus_.client, stream);
    }

    template <typename Call>
    std::invoke_result_t<Call> from_native(size_t size, const Call& call) {
        if (limit_.load(std::memory_order_relaxed) == kNoLimit || c10::cuda::current_device() != device_) {
            return with_what_we_keep(call);
        }
        return within_limit(size, [&] { return with_what_we_keep(call); });
    }

    // Note [The limit]
    // torch.cuda.set_per_process_memory_fraction limits what a process reserves. The native allocator respects it, but
    // counts only its own blocks. So the sum is checked here, before and after each block of either allocator: only
    // afterwards it is known whether the block came from memory that was already reserved. As natively, such a block is fine
    // even if a lower limit was set later. If several threads reach the limit at the same moment, all may be refused.
    template <typename Call>
    std::invoke_result_t<Call> within_limit(size_t size, const Call& call) {
        const uint64_t limit = limit_.load(std::memory_order_relaxed);
        if (limit == kNoLimit) return call();
        for (int attempt = 0; attempt < 2; ++attempt) {
            const Sum before = of_both();
            const uint64_t most = std::max(limit, before.reserved);
            if (before.in_use + size <= most) {
                auto block = call();
                if (of_both().reserved <= most) return block;
                discard(std::move(block));
            }
            give_back_all();
        }
        throw_out_of_memory(size, "That would exceed the limit of " + mebibytes(limit) +
                                      " that torch.cuda.set_per_process_memory_fraction has set.");
    }
    void discard(void* block) {
        if (block != nullptr) raw_delete(block);
    }
    void discard(DataPtr block) { block.clear(); }

    void give_back_all() {
        // This would spoil a capture; the native allocator does not do it then, either.
        if (is_for_a_pool(c10::cuda::getCurrentCUDAStream(device_).stream())) return;
        ++retries_;
        native_->emptyCache({0, 0});
        salus_.give_back(salus_.client);
    }

    struct Sum {
        uint64_t in_use, reserved;
    };
    Sum of_both() {
        const salus_usage ours = usage();
        const DeviceStats stats = native_->getDeviceStats(device_);
        return {ours.in_use + current(stats.allocated_bytes), ours.reserved + current(stats.reserved_bytes)};
    }
    static uint64_t current(const StatArray& bytes) {
        return static_cast<uint64_t>(bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
    }

    /// Newer versions also take a fraction from PYTORCH_CUDA_ALLOC_CONF. Asking for it makes the GPU the current one.
    void note_fraction() {
        try {
            if (!native_->initialized() || c10::cuda::current_device() != device_) return;
            set_limit(native_->getMemoryFraction(device_));
        } catch (const std::exception&) {
            // Then there is no fraction.
        }
    }
    void set_limit(double fraction) {
        limit_ = fraction < 1 ? static_cast<uint64_t>(fraction * static_cast<double>(memory_info().second)) : kNoLimit;
    }

    /// The native allocator does not know about our memory.
    template <typename Call>
    std::invoke_result_t<Call> with_what_we_keep(const Call& call) {
        try {
            return call();
        } catch (const c10::OutOfMemoryError&) {
            if (salus_.give_back(salus_.client) == 0) throw;
        }
        return call();
    }

    DataPtr with_our_deleter(DataPtr block) const {
        // A deleter other than the usual one has its reasons: keep it.
        static_cast<void>(block.compare_exchange_deleter(native_deleter_, &delete_block));
        return block;
    }

    void refuse_to_share(const void* block) const {
        TORCH_CHECK(!is_ours(block),
                    "a CUDA tensor in memory managed by Salus cannot be shared with another process, nor can a clone of it: "
                    "send tensor.cpu(), or run the job with SALUS_DISABLE=1");
    }

    [[noreturn]] void throw_out_of_memory(size_t size, const std::string& why) {
        ++out_of_memory_;
        const auto [free, total] = memory_info();
        const salus_usage ours = usage();
        const DeviceStats stats = native_->getDeviceStats(device_);
        c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), current(stats.allocated_bytes) + ours.in_use,
                                         current(stats.reserved_bytes) + ours.reserved, c10::Device(c10::kCUDA, device_));
        std::vector<native::OutOfMemoryObserver> observers;
        {
            const std::lock_guard lock(mutex_);
            observers = observers_;
        }
        for (const auto& observer : observers) observer(device_, size, total, free);
        const std::string message = "CUDA out of memory. Tried to allocate " + mebibytes(size) + ". GPU " +
                                    std::to_string(device_) + " has a total capacity of " + mebibytes(total) + " of which " +
                                    mebibytes(free) + " is free. This process has " + mebibytes(ours.in_use) +
                                    " allocated through Salus, and " + mebibytes(current(stats.allocated_bytes)) +
                                    " by PyTorch itself. (Salus) " + why;
        TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    }

    /// Written without C++ streams: some compilers link a C++ library of their own into this object, and the locales of two
    /// libraries conflict.
    static std::string mebibytes(uint64_t bytes) {
        char text[32];
        std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
        return text;
    }

    std::pair<size_t, size_t> memory_info() {
#if SALUS_TORCH_FROM(10)
        return native_->getMemoryInfo(device_);
#else
        size_t free = 0, total = 0;
        C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));  // of the current device, which is ours
        return {free, total};
#endif
    }

    salus_usage usage() const {
        salus_usage usage{};
        usage.size = sizeof usage;
        if (salus_.get_usage(salus_.client, &usage) != SALUS_OK) usage = {};
        return usage;
    }

    static void add(StatArray& to, uint64_t current, uint64_t peak, uint64_t allocated, uint64_t freed) {
        for (const StatType type : {StatType::AGGREGATE, StatType::LARGE_POOL}) {
            Stat& stat = to[static_cast<size_t>(type)];
            stat.current += static_cast<int64_t>(current);
            stat.peak += static_cast<int64_t>(peak);
            stat.allocated += static_cast<int64_t>(allocated);
            stat.freed += static_cast<int64_t>(freed);
        }
    }

    /// Peaks are added, too. They may have occurred at different times, so the sum is an upper bound.
    void add_ours(DeviceStats& stats) {
        const std::lock_guard lock(mutex_);
        const salus_usage now = usage();
        const salus_usage& before = accumulated_before_;
        for (StatArray* bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
            add(*bytes, now.in_use, now.in_use_peak, now.allocated - before.allocated, now.freed - before.freed);
        }
        const auto live = static_cast<uint64_t>(live_.load()), peak = static_cast<uint64_t>(live_peak_.load());
        for (StatArray* blocks : {&stats.allocation, &stats.active}) {
            add(*blocks, live, peak, now.allocations - before.allocations, now.frees - before.frees);
        }
        // All of our memory appears as one segment, which grows and shrinks.
        add(stats.segment, now.reserved > 0, now.reserved_peak > 0, 0, 0);
        add(stats.reserved_bytes, now.reserved, now.reserved_peak, 0, 0);
        stats.num_ooms += out_of_memory_;
        stats.num_alloc_retries += retries_;
    }

    const salus_torch_api salus_;
    const DeviceIndex device_;
    native::CUDAAllocator* const native_;
    const c10::DeleterFnPtr native_deleter_;
    std::atomic<uintptr_t> begin_{UINTPTR_MAX}, end_{0};  // of all blocks of ours so far
    std::atomic<size_t> open_pools_{0};                   // of pools_
    std::atomic<uint64_t> limit_{kNoLimit};               // bytes; see Note [The limit]
    std::atomic<int64_t> live_{0}, live_peak_{0};         // blocks of ours
    std::atomic<int64_t> out_of_memory_{0}, retries_{0};

    std::mutex mutex_;
    salus_usage accumulated_before_{};                      // by mutex_
    std::vector<native::OutOfMemoryObserver> observers_;    // by mutex_
    std::vector<std::pair<void*, cudaStream_t>> external_;  // by mutex_; blocks, and streams that use them
    std::atomic<bool> any_external_{false};
    std::mutex pools_mutex_;
    std::vector<OpenPool> pools_;  // by pools_mutex_; see Note [Open pools]
};

Allocator* installed = nullptr;

void delete_block(void* block) { installed->delete_any(block); }

/// Newer versions also look it up by the kind of device. Uses the lowest sufficient priority, so that another can follow.
void register_as_cudas(c10::Allocator* behind) {
    try {
        if (c10::GetAllocator(c10::kCUDA) != behind) return;
    } catch (const std::exception&) {
        return;  // none is registered
    }
    for (int priority = 0; priority < 256 && c10::GetAllocator(c10::kCUDA) != installed; ++priority) {
        c10::SetAllocator(c10::kCUDA, installed, static_cast<uint8_t>(priority));
    }
}

int install(const salus_torch_api& api) {
    if (api.version != kApiVersion) return kOtherVersion;
    if (installed != nullptr) return kInstalledBefore;
    native::CUDAAllocator* behind = native::allocator.load();
    if (behind == nullptr) return kNoAllocator;
    // isEnabled() does not reflect the environment variable.
    if (!behind->isEnabled() || std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) return kCachingIsOff;
    if (behind->raw_deleter() == nullptr) return kNoAllocator;
    installed = new Allocator(api, behind);
    native::allocator.store(installed);
    register_as_cudas(behind);
    return 0;
}

}  // namespace

int salus_torch_install(const salus_torch_api* api) {
    try {
        return install(*api);
    } catch (...) {
        return kFailed;
    }
}
