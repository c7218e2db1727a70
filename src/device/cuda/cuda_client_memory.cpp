#include "device/cuda/cuda_client_memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "device/cuda/gpu.h"
#include "os/descriptor.h"

namespace salus::device {
namespace {

using cuda::Handle;
using cuda::kPiece;
using cuda::kPrivatePiece;
using cuda::kSuccess;

/// Large requests are not tried without a look at what there is.
constexpr std::uint64_t kAskFirst = std::uint64_t{256} << 20;

// Note [Pieces]
// The driver maps whole handles only, so both windows are made of pieces. One of the lane's window shows the lane, or memory
// of our own while something in it is evacuated: then all of it was copied, and all of it is private, the free parts as
// well. One of the private window has memory while any byte of it is wanted.
class CudaClientMemory : public ClientMemory {
public:
    CudaClientMemory(const cuda::Gpu& gpu, cuda::Context context, cuda::Address lane, cuda::Address own, std::uint64_t size)
        : driver_(*gpu.driver),
          properties_(cuda::memory_of(gpu.ordinal)),
          context_(context),
          lane_(lane),
          own_(own),
          size_(size) {
        access_.location.id = gpu.ordinal;
    }
    ~CudaClientMemory() override {
        const Scope scope(*this);
        uses(turn_stream_);
        fence();
        drain();
        drop_lane();
        for (auto& [piece, evacuated] : evacuated_) put_away(lane_ + piece * kPiece, kPiece, evacuated.handle);
        for (auto& [piece, backed] : backed_) put_away(own_ + piece * kPrivatePiece, kPrivatePiece, backed.handle);
        driver_.address_free(lane_, size_);
        driver_.address_free(own_, size_);
        for (const auto& [stream, event] : events_) driver_.event_destroy(event);
        for (const cuda::Event event : {turn_.begin, turn_.first}) {
            if (event) driver_.event_destroy(event);
        }
        if (copies_) driver_.stream_destroy(copies_);
    }
    CudaClientMemory(const CudaClientMemory&) = delete;
    CudaClientMemory& operator=(const CudaClientMemory&) = delete;

    std::byte* lane_window() const override { return reinterpret_cast<std::byte*>(lane_); }
    std::byte* private_window() const override { return reinterpret_cast<std::byte*>(own_); }
    std::uint64_t window_size() const override { return size_ - kPiece; }  // the last one is to copy through

    // ---- the lane ----

    bool add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces) override {
        const Scope scope(*this);
        if (first > pieces_.size()) return false;
        forget_pieces(first);
        for (const os::Descriptor& descriptor : pieces) {
            Handle handle = 0;
            // The driver wants the descriptor itself where the pointer is; it takes a copy.
            void* passed = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor.get()));
            if (driver_.memory_import(&handle, passed, cuda::kHandleTypeDescriptor) != kSuccess) return false;
            pieces_.push_back(handle);
        }
        return true;
    }

    bool resize_lane(std::uint64_t size) override {
        const Scope scope(*this);
        const std::size_t wanted = (size + kPiece - 1) / kPiece;
        if (wanted > pieces_.size() || size > size_) return false;
        const std::size_t before = mapped_;
        hide(wanted);
        if (!show(wanted)) {
            hide(before);
            return false;
        }
        forget_pieces(mapped_);
        return true;
    }

    void drop_lane() override {
        resize_lane(0);
        forget_pieces(0);
    }

    bool make_private(Range range) override {
        const Scope scope(*this);
        const std::uint64_t last = (range.offset + range.size - 1) / kPiece;
        for (std::uint64_t piece = range.offset / kPiece; piece <= last; ++piece) {
            auto found = evacuated_.find(piece);
            if (found == evacuated_.end()) {
                const Handle copy = copy_of(piece);
                if (!copy) {
                    if (piece > range.offset / kPiece) release_evacuated(range.offset / kPiece, piece - 1);
                    return false;
                }
                found = evacuated_.emplace(piece, Evacuated{copy, 0}).first;
            }
            ++found->second.blocks;
        }
        return true;
    }

    bool restore_lane(Range range) override {
        const Scope scope(*this);
        return release_evacuated(range.offset / kPiece, (range.offset + range.size - 1) / kPiece);
    }

    // ---- private memory ----

    bool back_private(Range range) override {
        const Scope scope(*this);
        // Not piece by piece up to the end of the GPU's memory, which others would miss meanwhile.
        if (range.size >= kAskFirst && missing_in(range) > free_memory()) return false;
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::uint64_t piece = at / kPrivatePiece;
            const std::uint64_t end = std::min((piece + 1) * kPrivatePiece, range.offset + range.size);
            auto found = backed_.find(piece);
            if (found == backed_.end()) {
                const Handle handle = map_new(own_ + piece * kPrivatePiece, kPrivatePiece);
                if (!handle) {
                    discard_private({range.offset, at - range.offset});
                    return false;
                }
                found = backed_.emplace(piece, Backed{handle, 0}).first;
            }
            found->second.bytes += end - at;
            at = end;
        }
        return true;
    }

    void discard_private(Range range) override {
        const Scope scope(*this);
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::uint64_t piece = at / kPrivatePiece;
            const std::uint64_t end = std::min((piece + 1) * kPrivatePiece, range.offset + range.size);
            const auto found = backed_.find(piece);
            if (found != backed_.end() && (found->second.bytes -= end - at) == 0) {
                put_away(own_ + piece * kPrivatePiece, kPrivatePiece, found->second.handle);
                backed_.erase(found);
            }
            at = end;
        }
    }

    // Moving a GPU's memory out is not there yet; clients of one attach as unpageable.
    bool page_out(const std::vector<Range>&) override { return false; }
    bool page_in() override { return true; }
    void forget_paged(const std::byte*) override {}

    // CUDA does not survive fork(): a child has neither the memory nor the driver.
    void prepare_fork(const std::vector<Range>&) override {}
    void in_parent() override {}
    void in_child() override {}

    // ---- work in flight ----

    bool asynchronous() const override { return true; }
    void uses(Stream stream) override {
        if (std::find(used_.begin(), used_.end(), stream) == used_.end()) used_.push_back(stream);
    }

    bool order(Stream first, Stream second) override {
        const Scope scope(*this);
        if (state_of(first) == StreamState::kGone) return driver_.context_synchronize() == kSuccess;
        if (state_of(first) != StreamState::kUsual || state_of(second) != StreamState::kUsual) return false;
        const cuda::Event event = record(first);
        return event && driver_.stream_wait_event(stream_of(second), event, 0) == kSuccess;
    }

    void fence() override {
        const InContext in_context(*this);  // every boundary comes here, and no more of a Scope is needed
        const std::lock_guard lock(marks_mutex_);
        before_.swap(marked_);
        marked_.clear();
        unmarked_ = abandoned_;
        capturing_ = false;
        const auto was_marked = [&](Stream stream) {
            return std::find_if(before_.begin(), before_.end(), [&](const Mark& mark) { return mark.stream == stream; });
        };
        std::erase_if(used_, [&](Stream stream) {
            const StreamState state = state_of(stream);
            if (state == StreamState::kGone) {  // whoever destroyed it need not have waited for its work
                unmarked_ = abandoned_ = true;
                return true;
            }
            // Nothing runs of what a capturing stream is given now; of what came before, some may.
            const bool capturing = state == StreamState::kCaptures;
            const cuda::Event event = capturing ? nullptr : record(stream);
            if (event) {
                marked_.push_back({stream, event});
                // The first mark of a turn is kept; the next ones are made with the event that was kept before.
                if (stream == turn_stream_ && turn_.fences++ == 0) std::swap(turn_.first, events_[stream]);
                return true;
            }
            if (const auto earlier = was_marked(stream); earlier != before_.end()) marked_.push_back(*earlier);
            unmarked_ = unmarked_ || !capturing;
            capturing_ = capturing_ || capturing;
            return false;  // the next fence tries again
        });
    }

    bool captures() const override { return capturing_; }

    bool passed() override {
        const Scope scope(*this);
        const std::lock_guard lock(marks_mutex_);
        return !unmarked_ && !capturing_ && std::all_of(marked_.begin(), marked_.end(), [&](const Mark& mark) {
            return driver_.event_query(mark.event) == kSuccess;
        });
    }

    void drain() override {
        const Scope scope(*this);
        std::unique_lock lock(marks_mutex_);  // the helper drains without the memory lock
        const std::vector<Mark> marked = marked_;
        const bool unmarked = unmarked_;
        lock.unlock();
        const bool at_rest = unmarked && driver_.context_synchronize() == kSuccess;
        for (const Mark& mark : marked) driver_.event_synchronize(mark.event);
        if (!at_rest) return;
        lock.lock();
        abandoned_ = false;
    }

    bool drain_everything() override {
        const Scope scope(*this);
        return driver_.context_synchronize() == kSuccess;
    }

    void turn_begins(Stream stream) override {
        const Scope scope(*this);
        const std::lock_guard lock(marks_mutex_);
        turn_stream_ = stream;
        turn_.fences = 0;
        if (state_of(stream) != StreamState::kUsual) return;
        if (!turn_.begin && driver_.event_create(&turn_.begin, 0) != kSuccess) return;
        driver_.event_record(turn_.begin, stream_of(stream));
    }

    std::optional<std::uint64_t> ns_lost() override {
        const Scope scope(*this);
        const std::lock_guard lock(marks_mutex_);
        float first = 0;
        float others = 0;
        if (turn_.fences < 3 || driver_.event_elapsed(&first, turn_.begin, turn_.first) != kSuccess ||
            driver_.event_elapsed(&others, turn_.first, events_[turn_stream_]) != kSuccess) {
            return std::nullopt;
        }
        const float lost = first - others / static_cast<float>(turn_.fences - 1);
        turn_.fences = 0;
        return static_cast<std::uint64_t>(std::max(lost, 0.0f) * 1e6f);
    }

    std::uint64_t lane_unit() const override { return kPiece; }
    int ordinal() const override { return access_.location.id; }
    bool is_host() const override { return false; }
    std::uint64_t backed() const override { return backed_.size() * kPrivatePiece + evacuated_.size() * kPiece; }

private:
    struct Evacuated {
        Handle handle;
        std::size_t blocks;  ///< that lie in the piece, or reach into it
    };
    struct Backed {
        Handle handle;
        std::uint64_t bytes;  ///< that are wanted
    };

    /// While it lives our context is the calling thread's. The helper has none, and a script may have made another GPU's
    /// current: then a stream's number, 0 for one, would name a stream of that one.
    class InContext {
    public:
        explicit InContext(const CudaClientMemory& memory) : driver_(memory.driver_) {
            changed_ = driver_.get_current(&before_) != kSuccess || before_ != memory.context_;
            if (changed_) driver_.set_current(memory.context_);
        }
        ~InContext() {
            if (changed_) driver_.set_current(before_);
        }
        InContext(const InContext&) = delete;
        InContext& operator=(const InContext&) = delete;

    private:
        const cuda::Driver& driver_;
        cuda::Context before_ = nullptr;
        bool changed_ = false;
    };

    /// ... and the thread may call what else would spoil a graph that is being captured, here or in another thread.
    class Scope {
    public:
        explicit Scope(const CudaClientMemory& memory) : in_context_(memory), driver_(memory.driver_) {
            driver_.exchange_capture_mode(&mode_);
        }
        ~Scope() { driver_.exchange_capture_mode(&mode_); }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

    private:
        InContext in_context_;
        const cuda::Driver& driver_;
        int mode_ = cuda::kCaptureModeRelaxed;
    };

    static cuda::Stream stream_of(Stream stream) { return reinterpret_cast<cuda::Stream>(stream); }

    enum class StreamState : std::uint8_t { kUsual, kCaptures, kGone };
    StreamState state_of(Stream stream) const {
        int capturing = 0;
        switch (driver_.stream_is_capturing(stream_of(stream), &capturing)) {
            case kSuccess: return capturing != 0 ? StreamState::kCaptures : StreamState::kUsual;
            case cuda::kInvalidHandle:
            case cuda::kInvalidContext:
            case cuda::kContextIsDestroyed: return StreamState::kGone;
            // The default stream may not even be asked while another that it waits for captures.
            default: return StreamState::kCaptures;
        }
    }

    cuda::Event record(Stream stream) {
        cuda::Event& event = events_[stream];
        if (!event && driver_.event_create(&event, 0) != kSuccess) return nullptr;
        return driver_.event_record(event, stream_of(stream)) == kSuccess ? event : nullptr;
    }

    bool set_access(std::size_t from, std::size_t to) const {
        return from >= to || driver_.memory_set_access(lane_ + from * kPiece, (to - from) * kPiece, &access_, 1) == kSuccess;
    }

    /// So many pieces at least, of those that are not evacuated. False: some of them are there, and cannot be used.
    bool show(std::size_t wanted) {
        std::size_t from = mapped_;
        for (; mapped_ < wanted; ++mapped_) {
            // Access is set for many at once: that is what takes the time.
            if (evacuated_.contains(mapped_)) {
                if (!set_access(from, mapped_)) return false;
                from = mapped_ + 1;
            } else if (driver_.memory_map(lane_ + mapped_ * kPiece, kPiece, 0, pieces_[mapped_], 0) != kSuccess) {
                return false;
            }
        }
        return set_access(from, mapped_);
    }
    /// ... and at most.
    void hide(std::size_t wanted) {
        while (mapped_ > wanted) {
            if (!evacuated_.contains(--mapped_)) unmap_lane(mapped_);
        }
    }

    void unmap_lane(std::size_t piece) const { driver_.memory_unmap(lane_ + piece * kPiece, kPiece); }

    void forget_pieces(std::size_t from) {
        for (; pieces_.size() > from; pieces_.pop_back()) driver_.memory_release(pieces_.back());
    }

    std::uint64_t missing_in(Range range) const {
        std::uint64_t missing = 0;
        for (std::uint64_t piece = range.offset / kPrivatePiece; piece * kPrivatePiece < range.offset + range.size;
             ++piece) {
            if (!backed_.contains(piece)) missing += kPrivatePiece;
        }
        return missing;
    }
    std::uint64_t free_memory() const {
        std::size_t free = 0;
        std::size_t total = 0;
        return driver_.memory_info(&free, &total) == kSuccess ? free : ~std::uint64_t{0};
    }

    /// New memory at this address; 0 if there is none.
    Handle map_new(cuda::Address at, std::uint64_t size) const {
        Handle handle = 0;
        if (driver_.memory_create(&handle, size, &properties_, 0) != kSuccess) return 0;
        if (driver_.memory_map(at, size, 0, handle, 0) == kSuccess) {
            if (driver_.memory_set_access(at, size, &access_, 1) == kSuccess) return handle;
            driver_.memory_unmap(at, size);
        }
        driver_.memory_release(handle);
        return 0;
    }

    void put_away(cuda::Address at, std::uint64_t size, Handle handle) const {
        driver_.memory_unmap(at, size);
        driver_.memory_release(handle);
    }

    /// The piece of the lane becomes a copy of itself. 0 if there is no memory for it; then nothing has changed.
    Handle copy_of(std::uint64_t piece) {
        if (!copies_ && driver_.stream_create(&copies_, cuda::kStreamNonBlocking) != kSuccess) return 0;
        const cuda::Address at = lane_ + piece * kPiece;
        const cuda::Address aside = own_ + window_size();
        const Handle handle = map_new(aside, kPiece);
        if (!handle) return 0;
        bool ok = driver_.copy_on_device(aside, at, kPiece, copies_) == kSuccess &&
                  driver_.stream_synchronize(copies_) == kSuccess;
        driver_.memory_unmap(aside, kPiece);
        if (ok) {
            unmap_lane(piece);
            ok = map_piece(piece, handle);
            if (!ok) map_piece(piece, pieces_[piece]);
        }
        if (ok) return handle;
        driver_.memory_release(handle);
        return 0;
    }

    /// This memory in the place of a piece of the lane that has none.
    bool map_piece(std::uint64_t piece, Handle handle) const {
        if (driver_.memory_map(lane_ + piece * kPiece, kPiece, 0, handle, 0) != kSuccess) return false;
        if (set_access(piece, piece + 1)) return true;
        unmap_lane(piece);
        return false;
    }

    /// One block less in each of these; where none is left the lane shows through again. Where it cannot, the piece stays as
    /// it is, for good: other blocks may lie in it.
    bool release_evacuated(std::uint64_t first, std::uint64_t last) {
        bool ok = true;
        for (std::uint64_t piece = first; piece <= last; ++piece) {
            const auto found = evacuated_.find(piece);
            if (found == evacuated_.end() || --found->second.blocks > 0) continue;
            unmap_lane(piece);
            const bool shown = piece >= mapped_ || map_piece(piece, pieces_[piece]);
            ok = ok && shown;
            if (!shown && map_piece(piece, found->second.handle)) {
                found->second.blocks = 1;
                continue;
            }
            driver_.memory_release(found->second.handle);
            evacuated_.erase(found);
        }
        return ok;
    }

    const cuda::Driver& driver_;
    cuda::AllocationProperties properties_;
    cuda::Context context_;
    cuda::Address lane_;
    cuda::Address own_;
    std::uint64_t size_;
    cuda::AccessDescription access_;

    std::vector<Handle> pieces_;  ///< of the lane, in order
    std::size_t mapped_ = 0;      ///< so many of them show in the window, where it is not evacuated
    std::map<std::uint64_t, Evacuated> evacuated_;
    std::map<std::uint64_t, Backed> backed_;  ///< pieces of the private window
    cuda::Stream copies_ = nullptr;

    std::vector<Stream> used_;              ///< since the last fence
    std::map<Stream, cuda::Event> events_;  ///< each marks how far a stream was at the last fence that it was used before
    std::mutex marks_mutex_;
    struct Mark {
        Stream stream;
        cuda::Event event;
    };
    std::vector<Mark> marked_;  ///< by the last fence
    std::vector<Mark> before_;  ///< by the one before it
    bool unmarked_ = false;     ///< something could not be marked
    bool abandoned_ = false;    ///< a stream was destroyed, and the context has not come to rest since
    bool capturing_ = false;    ///< see captures()
    Stream turn_stream_ = 0;
    struct {
        cuda::Event begin = nullptr;
        cuda::Event first = nullptr;  ///< the end of its first iteration; that of its last is in events_
        unsigned fences = 0;
    } turn_;
};

}  // namespace

Result<std::unique_ptr<ClientMemory>> make_cuda_client_memory(Bytes capacity, const std::string& uuid) {
    const Result<cuda::Gpu> opened = cuda::open_gpu(uuid);
    if (!opened) return Error{opened.error()};
    const cuda::Gpu& gpu = opened.value();
    const cuda::Driver& driver = *gpu.driver;
    cuda::Context context = nullptr;
    cuda::Status status = driver.retain_primary_context(&context, gpu.ordinal);
    if (status == kSuccess) status = driver.set_current(context);
    if (status != kSuccess) return Error{"no context on the GPU: " + driver.name_of(status)};
    // Twice the capacity, and one piece to copy through: gaps between blocks cost address space only.
    const std::uint64_t size = (static_cast<std::uint64_t>(capacity.count) / kPiece + 1) * 2 * kPiece;
    cuda::Address lane = 0;
    cuda::Address own = 0;
    status = driver.address_reserve(&lane, size, 0, 0, 0);
    if (status == kSuccess) status = driver.address_reserve(&own, size, 0, 0, 0);
    if (status != kSuccess) return Error{"no address space for the GPU's memory: " + driver.name_of(status)};
    return std::unique_ptr<ClientMemory>(std::make_unique<CudaClientMemory>(gpu, context, lane, own, size));
}

}  // namespace salus::device
