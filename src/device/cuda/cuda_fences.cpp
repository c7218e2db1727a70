#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/cuda_windows.h"

namespace salus::device {
namespace {

/// One event per stream, which marks how far the stream had come at the last fence.
class CudaFences : public Fences {
public:
    explicit CudaFences(const cuda::ClientContext& context) : context_(context) {}
    /// Memory is unmapped after this.
    ~CudaFences() override {
        const cuda::ContextScope scope(context_);
        uses(turn_stream_);
        fence();
        drain();
        for (const auto& [stream, event] : events_) driver().event_destroy(event);
        for (const cuda::Event event : {turn_.begin, turn_.first}) {
            if (event) driver().event_destroy(event);
        }
    }
    CudaFences(const CudaFences&) = delete;
    CudaFences& operator=(const CudaFences&) = delete;

    void uses(Stream stream) override {
        if (std::find(used_.begin(), used_.end(), stream) == used_.end()) used_.push_back(stream);
    }

    bool captures(Stream stream) override {
        const cuda::InContext in_context(context_);
        return state_of(stream) == StreamState::kCaptures;
    }

    Order order(Stream first, Stream second) override {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const StreamState state = state_of(first);
        if (state == StreamState::kGone) return Order::kGone;
        if (state != StreamState::kUsual || state_of(second) != StreamState::kUsual) return Order::kNotNow;
        const std::lock_guard lock(marks_mutex_);
        const cuda::Event event = record(first);
        const bool waits = event && driver().stream_wait_event(stream_of(second), event, 0) == cuda::kSuccess;
        return waits ? Order::kDone : Order::kNotNow;
    }

    bool fence() override {
        const cuda::InContext in_context(context_);  // runs at every boundary, where a full ContextScope is not needed
        const std::lock_guard lock(marks_mutex_);
        before_.swap(marked_);
        marked_.clear();
        unmarked_ = abandoned_ > rested_;
        capturing_ = false;
        const auto was_marked = [&](Stream stream) {
            return std::find_if(before_.begin(), before_.end(), [&](const Mark& mark) { return mark.stream == stream; });
        };
        std::erase_if(used_, [&](Stream stream) {
            const StreamState state = state_of(stream);
            if (state == StreamState::kGone) {  // it may have been destroyed with work in flight
                unmarked_ = true;
                ++abandoned_;
                return true;
            }
            // A capturing stream does not run what it is given now, but earlier work may still run.
            const bool capturing = state == StreamState::kCaptures;
            const cuda::Event event = capturing ? nullptr : record(stream);
            if (event) {
                marked_.push_back({stream, event});
                // The first mark of a turn is kept; later marks reuse the event that was kept before.
                if (stream == turn_stream_ && turn_.fences++ == 0) std::swap(turn_.first, events_[stream]);
                return true;
            }
            if (const auto earlier = was_marked(stream); earlier != before_.end()) marked_.push_back(*earlier);
            unmarked_ = unmarked_ || !capturing;
            capturing_ = capturing_ || capturing;
            return false;  // the next fence tries again
        });
        return !capturing_;
    }

    bool passed() override {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const std::lock_guard lock(marks_mutex_);
        return !unmarked_ && !capturing_ && std::all_of(marked_.begin(), marked_.end(), [&](const Mark& mark) {
            return driver().event_query(mark.event) == cuda::kSuccess;
        });
    }

    bool at_rest() override {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const std::lock_guard lock(marks_mutex_);
        return std::none_of(marked_.begin(), marked_.end(),
                            [&](const Mark& mark) { return driver().event_query(mark.event) == cuda::kNotReady; });
    }

    void forget(Stream stream) override { std::erase(used_, stream); }

    void drain() override {
        const cuda::ContextScope scope(context_);
        std::unique_lock lock(marks_mutex_);  // other threads make fences meanwhile
        const std::vector<Mark> marked = marked_;
        const bool unmarked = unmarked_;
        const std::uint64_t abandoned = abandoned_;
        lock.unlock();
        const bool at_rest = unmarked && driver().context_synchronize() == cuda::kSuccess;
        for (const Mark& mark : marked) driver().event_synchronize(mark.event);
        if (!at_rest) return;
        lock.lock();
        rested_ = std::max(rested_, abandoned);
    }

    bool drain_everything() override {
        const cuda::ContextScope scope(context_);
        return driver().context_synchronize() == cuda::kSuccess;
    }

    void turn_begins(Stream stream) override {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const std::lock_guard lock(marks_mutex_);
        turn_stream_ = stream;
        turn_.fences = 0;
        if (state_of(stream) != StreamState::kUsual) return;
        if (!turn_.begin && driver().event_create(&turn_.begin, 0) != cuda::kSuccess) return;
        driver().event_record(turn_.begin, stream_of(stream));
    }

    std::optional<std::uint64_t> ns_lost() override {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const std::lock_guard lock(marks_mutex_);
        float first = 0;
        float others = 0;
        if (turn_.fences < 3 || driver().event_elapsed(&first, turn_.begin, turn_.first) != cuda::kSuccess ||
            driver().event_elapsed(&others, turn_.first, events_[turn_stream_]) != cuda::kSuccess) {
            return std::nullopt;
        }
        const float lost = first - others / static_cast<float>(turn_.fences - 1);
        turn_.fences = 0;
        return static_cast<std::uint64_t>(std::max(lost, 0.0f) * 1e6f);
    }

private:
    const cuda::Driver& driver() const { return *context_.driver; }
    static cuda::Stream stream_of(Stream stream) { return reinterpret_cast<cuda::Stream>(stream); }

    enum class StreamState : std::uint8_t { kUsual, kCaptures, kGone };
    StreamState state_of(Stream stream) const {
        int capturing = 0;
        const cuda::Status status = driver().stream_is_capturing(stream_of(stream), &capturing);
        if (status == cuda::kSuccess) return capturing != 0 ? StreamState::kCaptures : StreamState::kUsual;
        // The default stream may not even be queried while a stream that it waits for captures. Other errors mean that the
        // stream or its context is no more, or that a kernel has failed: then nothing runs any longer.
        return status == cuda::kStreamCaptureImplicit ? StreamState::kCaptures : StreamState::kGone;
    }

    cuda::Event record(Stream stream) {
        cuda::Event& event = events_[stream];
        if (!event && driver().event_create(&event, 0) != cuda::kSuccess) return nullptr;
        return driver().event_record(event, stream_of(stream)) == cuda::kSuccess ? event : nullptr;
    }

    cuda::ClientContext context_;
    std::vector<Stream> used_;              ///< since the last fence
    std::mutex marks_mutex_;                ///< guards all below; held for a moment only
    std::map<Stream, cuda::Event> events_;  ///< the progress of each stream at the last fence after its use
    struct Mark {
        Stream stream;
        cuda::Event event;
    };
    std::vector<Mark> marked_;     ///< by the last fence
    std::vector<Mark> before_;     ///< by the one before it
    bool unmarked_ = false;        ///< something could not be marked
    std::uint64_t abandoned_ = 0;  ///< streams that were destroyed ...
    std::uint64_t rested_ = 0;     ///< ... and how many of them before the context was last drained
    bool capturing_ = false;       ///< the last fence met a stream that captures
    Stream turn_stream_ = 0;
    struct {
        cuda::Event begin = nullptr;
        cuda::Event first = nullptr;  ///< the end of its first iteration; that of its last is in events_
        unsigned fences = 0;
    } turn_;
};

}  // namespace

std::unique_ptr<Fences> make_cuda_fences(const cuda::ClientContext& context) {
    return std::make_unique<CudaFences>(context);
}

}  // namespace salus::device
