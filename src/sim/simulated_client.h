// A simulated client: one process of a job, as that process would know itself. It speaks to the service only as the library
// does, through its control page, its notifications and messages (src/attachment).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "attachment/asking.h"
#include "attachment/requests.h"
#include "attachment/turn_steps.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "shell/ports.h"
#include "wire/control_page.h"
#include "wire/messages.h"

namespace salus::sim {

/// Of whom a page is, for whoever is told to wake its threads.
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
    bool want_is_due = false;  ///< it was to begin while it was stopped
    bool refused = false;      ///< it could never fit, and ends

    // Its half of the protocol.
    std::shared_ptr<OwnedPage> page = std::make_shared<OwnedPage>();
    attachment::TurnSteps turn{*page};
    attachment::Requests requests;
    attachment::Asking asking;
    shell::ConnectionId connection = 0;
    bool connected = false;
    bool orphaned = false;             ///< its service is gone
    bool notifies = false;             ///< a notification is under way; another one would say no more
    std::deque<wire::Message> outbox;  ///< under way to the service
    Instant outbox_until{};            ///< messages keep their order

    // Its helper, which does one thing at a time.
    std::deque<wire::Message> inbox;
    attachment::Request doing;
    bool helper_busy = false;
    bool helper_overdue = false;  ///< it would be done, but is stopped, or has to wait for a boundary

    // Its turn, as the grant had it.
    LaneId lane = kNoLane;
    bool handover = false;  ///< another client ran there before
    bool resumed = false;   ///< in this turn it went on after having been stopped or stalled
    Bytes room;             ///< private memory that it may use

    // Its memory.
    Bytes persistent;  ///< true use now
    Bytes unasked;     ///< of it, what it took without asking
    Bytes ephemeral;
    Bytes context;  ///< on the device for as long as the process lives
    bool persistent_on_device = false;
    bool has_run = false;  ///< and has its P somewhere
    bool paged = false;
    bool stays = false;            ///< is never paged out
    std::optional<Mapped> mapped;  ///< what it really has mapped
    std::size_t growths = 0;       ///< of the job's, how many have come

    // Its work.
    std::uint64_t iterations = 0;  ///< done, in legs that have ended
    std::uint64_t leg = 0;         ///< iterations that it is to run before it next has something to say
    std::uint64_t published = 0;   ///< of the leg, those that its page counts already
    double work_ns = 0;            ///< done of this leg, at full speed; negative: the switch is still being paid
    double rate = 1;
    Instant finish;  ///< of the leg, at the present rate
    Instant segment_start;
    Duration ran;  ///< in segments that have ended

    control::Word word() const { return turn.word(); }
    /// Its process is there.
    bool here() const { return phase != Phase::kGone && phase != Phase::kNotArrived && phase != Phase::kAnnounced; }
    bool inside() const { return phase == Phase::kRunning || phase == Phase::kStalled; }
    bool runs() const { return phase == Phase::kRunning && !stopped; }
    /// Of its own on the device: lanes and its context aside.
    Bytes private_use() const {
        if (!persistent_on_device) return {};
        const bool profiles = phase == Phase::kRunning && lane == kNoLane;
        return std::min(persistent, room) + (profiles ? ephemeral : Bytes{});
    }
    Bytes mapped_size(LaneId of) const { return mapped && mapped->lane == of ? mapped->size : Bytes{}; }
};

}  // namespace salus::sim
