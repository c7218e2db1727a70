// A simulated client: one process of a job, with what that process knows. It talks to the service only as the library does:
// through its control page, notifications and messages (src/attachment).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "attachment/asking.h"
#include "attachment/request_marks.h"
#include "attachment/requests.h"
#include "attachment/turn_steps.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "shell/ports.h"
#include "sim/sliced_device.h"
#include "wire/control_page.h"
#include "wire/messages.h"

namespace salus::sim {

/// A page that names its client, so that World::wake() knows whom to wake.
struct OwnedPage : ControlPage {
    ClientId owner = kNoClient;
};

struct SimulatedClient {
    enum class Phase : std::uint8_t {
        kNotArrived,
        kAnnounced,  ///< its process has not started
        kOnHost,     ///< between iterations, or before the first
        kWaiting,    ///< its thread waits in begin()
        kRunning,    ///< inside an iteration
        kStalled,    ///< inside an iteration, and waits for memory
        kDraining,   ///< at a boundary: waits for the device before it gives its grant back
        kGone,
    };
    struct Mapped {
        LaneId lane = kNoLane;
        Bytes size;
    };

    Phase phase = Phase::kNotArrived;
    bool stopped = false;      ///< the process, by a signal
    bool want_is_due = false;  ///< it should have begun while it was stopped
    bool refused = false;      ///< it could never fit, and ends

    // Its half of the protocol.
    std::shared_ptr<OwnedPage> page = std::make_shared<OwnedPage>();
    attachment::TurnSteps turn{*page};
    attachment::Requests requests;
    attachment::Asking asking;
    shell::ConnectionId connection = 0;
    bool connected = false;
    bool orphaned = false;             ///< its service is gone
    bool notifies = false;             ///< a notification is under way; a second one would add nothing
    std::deque<wire::Message> outbox;  ///< under way to the service
    Instant outbox_until{};            ///< when the last one arrives: messages keep their order

    // Its helper, which serves one request at a time.
    std::deque<wire::Message> inbox;
    attachment::Request doing;
    bool helper_busy = false;
    bool helper_overdue = false;  ///< it would be done, but the process is stopped, or it has to wait for a boundary

    // Its gate and its requests, on a device that has gates.
    attachment::RequestMarks marks{page->gates};
    std::optional<attachment::RequestMarks::Mark> request;  ///< that its thread answers
    std::deque<attachment::RequestMarks::Mark> ending;      ///< requests that the device still works on
    bool puts_gates = false;
    bool marks_requests = false;
    bool gated = false;                         ///< its work on the device stands at a closed gate
    std::uint32_t gate_seen = GatePage::kOpen;  ///< the gate's word when the simulation last looked ...
    Instant gate_closed_at{};                   ///< ... and when it was closed
    std::optional<KeepGateOpen> drain_keeps_open;
    std::optional<KeepGateOpen> helper_keeps_open;

    // Its turn, as granted.
    LaneId lane = kNoLane;
    bool handover = false;  ///< another client ran in the lane before
    bool resumed = false;   ///< in this turn it was stopped or stalled
    Bytes room;             ///< private memory that it may use

    // Its memory.
    Bytes persistent;  ///< true use now
    Bytes unasked;     ///< the part of it that it took without asking
    Bytes ephemeral;
    Bytes fixed;    ///< the part of its P that stays when it is paged out
    Bytes context;  ///< on the device as long as the process lives
    bool persistent_on_device = false;
    bool has_run = false;  ///< so its P exists, on the device or paged out
    bool paged = false;
    bool stays = false;            ///< is never paged out
    bool suspended = false;        ///< by its user
    bool interactive = false;      ///< its class, as it says
    bool in_crew = false;          ///< as it says
    std::optional<Mapped> mapped;  ///< what it really has mapped
    std::size_t growths = 0;       ///< how many of the job's growths have happened

    // Its work.
    std::uint64_t iterations = 0;  ///< completed in legs that have ended
    std::uint64_t leg = 0;         ///< iterations to run until the client next has something to do but run
    std::uint64_t published = 0;   ///< iterations of the leg that its page already counts
    Duration iteration_time;       ///< of an iteration of this leg, alone
    Instant asked_at{};            ///< when somebody asked for the present or next iteration
    SlicedDevice::Work on_device;  ///< where the device works in slices: what is left of a leg that was interrupted
    double work_ns = 0;            ///< work done of this leg, at full speed; negative: the switch is still being paid for
    double rate = 1;
    Instant finish;  ///< end of the leg at the current rate
    Instant segment_start;
    Duration ran;  ///< in segments that have ended

    control::Word word() const { return turn.word(); }
    /// Its process exists.
    bool here() const { return phase != Phase::kGone && phase != Phase::kNotArrived && phase != Phase::kAnnounced; }
    bool inside() const { return phase == Phase::kRunning || phase == Phase::kStalled; }
    bool runs() const { return phase == Phase::kRunning && !stopped; }
    /// Its private memory on the device, without lanes and its context.
    Bytes private_use() const {
        if (!persistent_on_device) return left();
        const bool profiles = phase == Phase::kRunning && lane == kNoLane;
        return std::min(persistent, room) + (profiles ? ephemeral : Bytes{});
    }
    /// What stays of it if it is paged out.
    Bytes rest() const { return context + (has_run ? std::min(fixed, persistent) : Bytes{}); }
    /// The part of its P that is on the device although it is paged out.
    Bytes left() const { return paged && has_run ? std::min(fixed, persistent) : Bytes{}; }
    Bytes mapped_size(LaneId of) const { return mapped && mapped->lane == of ? mapped->size : Bytes{}; }
};

}  // namespace salus::sim
