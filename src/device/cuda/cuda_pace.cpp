#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/time.h"
#include "device/cuda/cuda_windows.h"
#include "os/clock.h"
#include "os/thread.h"

namespace salus::device {
namespace {

/// Marks of one stream, each after so many launches that the device takes about kBetweenMarks for them. The host runs ahead,
/// so its clock says nothing of that; the events' own times do.
class CudaPace : public Pace {
public:
    explicit CudaPace(const cuda::ClientContext& context) : context_(context) {}
    ~CudaPace() override {
        const cuda::ContextScope scope(context_);
        for (const auto& [stream, track] : tracks_) {
            for (const cuda::Event event : track.marks) {
                if (event) driver().event_destroy(event);
            }
        }
    }
    CudaPace(const CudaPace&) = delete;
    CudaPace& operator=(const CudaPace&) = delete;

    void keep(Stream stream) override {
        std::unique_lock lock(mutex_);
        Track& track = tracks_[stream];
        if (++track.launches < track.launches_a_mark) return;
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        const cuda::Event oldest = mark(track, reinterpret_cast<cuda::Stream>(stream));
        lock.unlock();
        const os::NoCancellation no_cancellation;
        for (int ms = 0; oldest && ms < kPatienceMs && driver().event_query(oldest) == cuda::kNotReady; ++ms)
            os::sleep_for(milliseconds(1));
    }

    void forget(Stream stream) override {
        const std::lock_guard lock(mutex_);
        const auto found = tracks_.find(stream);
        if (found == tracks_.end()) return;
        const cuda::ContextScope scope(context_);
        for (const cuda::Event event : found->second.marks) {
            if (event) driver().event_destroy(event);
        }
        tracks_.erase(found);
    }

    void restart() override {
        const std::lock_guard lock(mutex_);
        for (auto& [stream, track] : tracks_) track.in_a_row = 0;
    }

private:
    static constexpr float kBetweenMarksMs = 4;
    static constexpr int kPatienceMs = 100;
    static constexpr std::size_t kMarks = 4;  ///< three of them in flight: what the device is given ahead
    static constexpr unsigned kLaunchesMax = 4096;

    struct Track {
        std::array<cuda::Event, kMarks> marks{};
        std::size_t next = 0;
        std::size_t in_a_row = 0;  ///< marks since the last restart
        unsigned launches = 0;     ///< since the last mark
        unsigned launches_a_mark = 1;
    };

    const cuda::Driver& driver() const { return *context_.driver; }

    /// The mark that is to be waited for, if there are enough.
    cuda::Event mark(Track& track, cuda::Stream stream) {
        int capturing = 0;
        if (driver().stream_is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) return nullptr;
        cuda::Event& event = track.marks[track.next];
        if (!event && driver().event_create(&event, 0) != cuda::kSuccess) return nullptr;
        if (driver().event_record(event, stream) != cuda::kSuccess) return nullptr;
        track.launches = 0;
        track.next = (track.next + 1) % kMarks;
        ++track.in_a_row;
        if (track.in_a_row < kMarks) return nullptr;
        const cuda::Event oldest = track.marks[track.next], after_it = track.marks[(track.next + 1) % kMarks];
        float took = 0;
        if (driver().event_elapsed(&took, oldest, after_it) == cuda::kSuccess) {
            const float factor = std::clamp(kBetweenMarksMs / std::max(took, 0.001f), 0.25f, 2.0f);
            const float wanted = static_cast<float>(track.launches_a_mark) * factor;
            track.launches_a_mark = std::clamp(static_cast<unsigned>(wanted), 1u, kLaunchesMax);
        }
        return oldest;
    }

    cuda::ClientContext context_;
    std::mutex mutex_;  ///< held for moments
    std::map<Stream, Track> tracks_;
};

}  // namespace

std::unique_ptr<Pace> make_cuda_pace(const cuda::ClientContext& context) { return std::make_unique<CudaPace>(context); }

}  // namespace salus::device
