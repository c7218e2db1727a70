#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda/cuda_windows.h"
#include "os/thread.h"

namespace salus::device {
namespace {

/// Puts gates into streams, each after so many launches that the device takes about kBetweenGatesUs for them: a gate takes
/// the device some 10 us, and a request waits for the next gate. The host runs ahead, so its clock says nothing of the
/// device's time; two events now and then do.
class CudaGatedStreams : public GatedStreams {
public:
    explicit CudaGatedStreams(const cuda::ClientContext& context) : context_(context) {}
    ~CudaGatedStreams() override {
        const cuda::ContextScope scope(context_);
        for (auto& [stream, track] : tracks_) track.measure.destroy(driver());
        if (joined_) driver().stream_destroy(joined_);
        if (end_) driver().event_destroy(end_);
    }
    CudaGatedStreams(const CudaGatedStreams&) = delete;
    CudaGatedStreams& operator=(const CudaGatedStreams&) = delete;

    bool prepare() override {
        const std::lock_guard lock(mutex_);
        if (page_) return true;
        if (!driver().stream_wait_value || !driver().stream_write_value || !driver().host_register ||
            !driver().host_get_device_pointer) {
            return false;
        }
        const cuda::ContextScope scope(context_);
        GatePage* const page = context_.gates;
        cuda::Address address = 0;
        if (driver().host_register(page, sizeof *page, cuda::kHostRegisterDeviceMap) != cuda::kSuccess) return false;
        if (driver().host_get_device_pointer(&address, page, 0) != cuda::kSuccess) return false;
        page_ = address;
        return true;
    }

    unsigned pass(Stream stream, unsigned launches) override {
        const std::lock_guard lock(mutex_);
        Track& track = tracks_[stream];
        if (track.launches + launches < track.launches_a_gate) {
            track.launches += launches;
            return track.launches_a_gate - track.launches;
        }
        const auto on = reinterpret_cast<cuda::Stream>(stream);
        if (is_of_our_context(on)) {
            track.launches += launches;
            put_gate(track, on);
        } else if (is_default(on)) {
            return 1;  // at the next launch it may be ours
        }
        track.launches = 0;
        return track.launches_a_gate;
    }

    bool store_behind(std::span<const Stream> streams, std::atomic<std::uint32_t>& word, std::uint32_t number) override {
        std::vector<cuda::Stream> on;
        for (const Stream stream : streams) {
            if (const auto ours = reinterpret_cast<cuda::Stream>(stream); is_of_our_context(ours)) on.push_back(ours);
        }
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        std::erase_if(on, [this](cuda::Stream stream) { return captures(stream); });
        const auto store = [&](cuda::Stream last) {
            return driver().stream_write_value(last, address_of(word), number, 0) == cuda::kSuccess;
        };
        if (on.size() < 2) return !on.empty() && store(on.front());
        const std::lock_guard lock(mutex_);
        return join(on) && store(joined_);
    }

    void forget(Stream stream) override {
        const std::lock_guard lock(mutex_);
        const auto found = tracks_.find(stream);
        if (found == tracks_.end()) return;
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        found->second.measure.destroy(driver());
        tracks_.erase(found);
    }

private:
    static constexpr float kBetweenGatesUs = 300;
    static constexpr unsigned kLaunchesMax = 4096;

    /// The device's time from one gate to the next. One measurement at a time: an event can be recorded again only when it
    /// has passed, and the device may be many gates behind.
    struct Measure {
        cuda::Event from = nullptr, to = nullptr;
        unsigned launches = 0;  ///< between them
        int thread = 0;         ///< that recorded `from`, if its own default stream is meant
        enum class Stage : std::uint8_t { kIdle, kBegun, kInFlight } stage = Stage::kIdle;

        void destroy(const cuda::Driver& driver) {
            for (const cuda::Event event : {from, to}) {
                if (event) driver.event_destroy(event);
            }
        }
    };
    struct Track {
        unsigned launches = 0;  ///< since the last gate
        unsigned launches_a_gate = 8;
        float launch_us = 0;  ///< what the device takes for one
        Measure measure;
    };

    const cuda::Driver& driver() const { return *context_.driver; }

    cuda::Address address_of(const std::atomic<std::uint32_t>& word) const {
        return page_ + static_cast<cuda::Address>(reinterpret_cast<const std::byte*>(&word) -
                                                  reinterpret_cast<const std::byte*>(context_.gates));
    }

    /// One of the handles that mean a stream of the context that is current: the default one, and the calling thread's own.
    static bool is_default(cuda::Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

    static bool is_own_of_thread(cuda::Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) == 2; }

    /// Another context, perhaps on another device, does not have our page.
    bool is_of_our_context(cuda::Stream stream) const {
        cuda::Context its = nullptr;
        const cuda::Status status = is_default(stream) ? driver().get_current(&its) : driver().stream_context(stream, &its);
        return status == cuda::kSuccess && its == context_.context;
    }

    /// A stream that captures, or whose state the driver does not tell, gets nothing of ours.
    bool captures(cuda::Stream stream) const {
        int capturing = 0;
        return driver().stream_is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0;
    }

    /// What a stream of ours is given next waits for the work that these streams have so far. If they waited for each other
    /// instead, programs could deadlock whose streams do so in the other direction.
    bool join(const std::vector<cuda::Stream>& streams) {
        if (!joined_ && driver().stream_create(&joined_, cuda::kStreamNonBlocking) != cuda::kSuccess) return false;
        if (!end_ && driver().event_create(&end_, cuda::kEventWithoutTime) != cuda::kSuccess) return false;
        // A wait is for the event as it was recorded last, so one event is enough.
        return std::ranges::all_of(streams, [this](cuda::Stream stream) {
            return driver().event_record(end_, stream) == cuda::kSuccess &&
                   driver().stream_wait_event(joined_, end_, 0) == cuda::kSuccess;
        });
    }

    void put_gate(Track& track, cuda::Stream stream) {
        const cuda::ContextScope scope(context_, cuda::Gate::kAsItIs);
        if (captures(stream)) return;
        driver().stream_wait_value(stream, address_of(context_.gates->gate), GatePage::kOpen, cuda::kWaitAnd);
        measure(track, stream);
    }

    void measure(Track& track, cuda::Stream stream) {
        Measure& m = track.measure;
        using Stage = Measure::Stage;
        const auto record = [&](cuda::Event& event) {
            if (!event && driver().event_create(&event, 0) != cuda::kSuccess) return false;
            return driver().event_record(event, stream) == cuda::kSuccess;
        };
        // One handle means another stream in each thread, which may be far ahead or behind.
        const int thread = is_own_of_thread(stream) ? os::this_thread() : 0;
        if (m.stage == Stage::kBegun && m.thread != thread) m.stage = Stage::kIdle;
        if (m.stage == Stage::kBegun) {
            m.launches = track.launches;
            m.stage = record(m.to) ? Stage::kInFlight : Stage::kIdle;
        } else if (m.stage == Stage::kInFlight) {
            const cuda::Status status = driver().event_query(m.to);
            if (status == cuda::kNotReady) return;
            m.stage = Stage::kIdle;
            float ms = 0;
            if (status == cuda::kSuccess && driver().event_elapsed(&ms, m.from, m.to) == cuda::kSuccess)
                learn(track, ms * 1000 / static_cast<float>(m.launches));
        }
        if (m.stage == Stage::kIdle && record(m.from)) {
            m.stage = Stage::kBegun;
            m.thread = thread;
        }
    }

    /// A closed gate, or a host that is late, makes launches look long: one sample does not count for much.
    static void learn(Track& track, float launch_us) {
        const float before = track.launch_us;
        track.launch_us = before == 0 ? launch_us : before + (std::min(launch_us, 2 * before) - before) / 8;
        const float wanted = kBetweenGatesUs / std::max(track.launch_us, 0.1f);
        track.launches_a_gate = static_cast<unsigned>(std::clamp(wanted, 1.0f, static_cast<float>(kLaunchesMax)));
    }

    cuda::ClientContext context_;
    cuda::Address page_ = 0;  ///< for the device; set before anybody puts gates in
    std::mutex mutex_;        ///< held for moments, or while the driver takes no more launches
    std::map<Stream, Track> tracks_;
    cuda::Stream joined_ = nullptr;  ///< see join()
    cuda::Event end_ = nullptr;
};

}  // namespace

std::unique_ptr<GatedStreams> make_cuda_gated_streams(const cuda::ClientContext& context) {
    return context.gates ? std::make_unique<CudaGatedStreams>(context) : nullptr;
}

}  // namespace salus::device
