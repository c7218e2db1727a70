// The shell around the engine: turns what clients do into events, and the engine's actions into control words, messages and
// lane memory.
//
// It knows clients, not sockets: its driver passes it messages and tells it of deaths. All contact with the world goes
// through its ports, so that the service (service/server.h) and the simulator (sim/world.h) run the same shell. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/client_class.h"
#include "base/histogram.h"
#include "base/run_figures.h"
#include "base/stay_reason.h"
#include "core/engine.h"
#include "shell/ports.h"
#include "shell/request_watch.h"
#include "shell/speed_watch.h"
#include "wire/control_page.h"
#include "wire/control_word.h"
#include "wire/messages.h"

namespace salus::shell {

/// What a client was last told to do on the device: wire::Arm.
struct Arming {
    bool gates = false;     ///< put gates into its streams
    bool requests = false;  ///< mark its requests, and signal each

    bool operator==(const Arming&) const = default;
};

/// What a job's user has changed while it ran. It holds for all its clients, also under the next service.
struct UserSettings {
    bool paused = false;
    bool suspended = false;
    std::optional<int> priority = {};
    std::optional<double> weight = {};
    std::optional<std::uint64_t> iterations = {};  ///< in all; 0: not known
    std::optional<bool> interactive = {};

    bool operator==(const UserSettings&) const = default;
};

/// One attached client.
struct Session {
    ClientId id = kNoClient;
    std::uint32_t job = 0;
    std::string name;
    ProcessId process;
    unsigned uid = 0;
    ConnectionId connection = 0;
    std::shared_ptr<ControlPage> page;

    Instant attached_at;
    std::uint64_t iterations_before = 0;  ///< completed under the previous service
    std::uint64_t busy_before_ns = 0;     ///< the same of the time inside iterations ...
    Histogram iteration_times_before;     ///< ... and of their times
    Instant waiting_since = kNever;       ///< kNever: it does not wait
    Duration waited;
    bool paused = false;              ///< by `salus pause`
    bool suspended = false;           ///< by `salus suspend`
    bool stopped = false;             ///< by a signal or a debugger
    bool asleep = false;              ///< it holds a lane in mid-iteration, and does nothing
    Duration cpu_seen;                ///< its processor time, and ...
    Instant cpu_seen_at;              ///< ... when that was last seen to advance
    Instant wanted_back_at = kNever;  ///< since when it was seen to keep a turn that is wanted back
    bool disconnected = false;        ///< its process may still be there
    wire::Need need;                  ///< its last Need in this turn; number 0: none
    bool asks = false;                ///< that Need is not answered yet
    LaneId pieces_of = kNoLane;       ///< the lane whose pieces it was sent ...
    std::size_t pieces = 0;           ///< ... and how many of them
    std::uint64_t lane_sent = 0;      ///< the size of the lane in the last MapLane that was sent
    struct Unmapped {
        wire::MapLane message;
        Instant since;
    };
    std::optional<Unmapped> unmapped;  ///< not sent yet: the device had no memory for it
    bool has_wanted = false;           ///< a turn: its context exists since then
    Bytes overhead_last_seen;
    Bytes overhead;  ///< memory that it uses but does not manage: its context, the framework's own allocator
    Bytes left;      ///< the managed memory that stayed on the device when it was last paged out
    StayReason stays_because = StayReason::kUnknown;

    // What the engine was last told.
    std::uint64_t iterations_told = 0;
    std::uint64_t launches_told = 0;
    std::uint64_t busy_told_ns = 0;
    Instant told_at;
    Bytes persistent_told;
    Bytes ephemeral_told;
    Bytes rest_told;
    double occupancy = 1;

    Arming arming;
    RequestWatch requests;

    UserSettings said;
    ClientClass client_class;
    RunFigures past;              ///< figures of earlier runs of its command
    Duration stated_iteration;    ///< as its job says; 0: it does not
    bool length_is_past = false;  ///< its iterations_total comes from an earlier run, and may be wrong

    control::Word word() const { return control::unpack(page->word.load(std::memory_order_acquire)); }
    bool inert() const { return paused || stopped || asleep; }
    /// 0: nothing is known.
    Duration expected_iteration_time() const { return past.iteration_time.ns > 0 ? past.iteration_time : stated_iteration; }
};

/// Whether a client can mean such a figure.
inline bool in_range(std::uint64_t bytes) { return bytes <= std::uint64_t{1} << 50; }

/// Time inside iterations, including the current one.
std::uint64_t busy_ns_of(const Session& session, Instant at);
/// As the client has written it on its page.
Histogram iteration_times_on(const ControlPage& page);

struct Settings {
    EngineOptions engine;  ///< its capacity is what jobs may use in total if nobody else used the device
    const Policy* policy = nullptr;
    const Policy* fallback = nullptr;
    bool min_turn_is_fixed = false;  ///< else it follows the measured cost of a turn
    bool pages = true;               ///< clients of this device are paged out
    std::string page_directory{};    ///< where they put what memory cannot hold; empty: they choose
};

class Shell {
public:
    Shell(const Settings& settings, const Ports& ports);

    // ---- for the server ----
    /// What is known about a job when its runner announces it.
    struct Announcement {
        JobId job = kNoJob;
        ConnectionId runner = 0;  ///< is told Start, if the job has to wait for it
        Bytes persistent;         ///< P of an earlier run; 0: not known
        bool runs = false;        ///< its process was started under an earlier service
        bool waited = false;      ///< it waited to start under an earlier service
        unsigned uid = 0;
    };
    /// True: the job's process may start at once, or already runs. Else its runner gets Start later.
    bool announce(const Announcement& announcement);
    /// The job's runner and its clients are gone. Jobs that were not announced are ignored.
    void withdraw(JobId job);
    /// Attaches a client. An error is one line for the client. `session` has id, process, uid, connection, page and, if its
    /// user has changed something about the job, that.
    /// REQUIRES: the id is free.
    Result<Session*> attach(std::unique_ptr<Session> session, const wire::Attach& attach);
    /// A message of an attached client. False: the client broke the protocol or has left; close its connection.
    bool message(Session& session, const wire::Message& message);
    /// The client signalled that its word has changed.
    void notified(Session& session);
    /// The client's socket is closed, but its process is not known to be gone.
    void disconnected(Session& session);
    /// The client's process is gone. Destroys the session.
    void died(Session& session);

    /// Figures of earlier runs of the client's command that became known after it attached. Their length counts as if the
    /// client had stated it, unless it has stated one.
    void expect(Session& session, const RunFigures& past);
    /// What earlier runs have shown of these two at once.
    void recall(const Session& session, const Session& other, double rate);
    /// `tell` is called for each client that leaves or dies, just before its session is destroyed.
    void on_departure(std::function<void(const Session&)> tell) { tell_departure_ = std::move(tell); }
    /// Asks the device how much memory each process uses.
    void look_at_usage();
    /// The figures of a client's run so far.
    RunFigures figures_of(const Session& session) const;
    /// What the client has taken of the device so far; its memory time since this service knows it.
    RunUse use_of(const Session& session) const;

    /// Does what is due now: timers, idle holders, stopped processes.
    void tick();
    /// The latest time for the next tick().
    Instant next_tick() const;
    /// As next_tick(), for a caller that knows when holders begin and end iterations, and need not poll them.
    Instant due() const;
    /// Whether requests must be polled: one is in flight, and its end is not signalled.
    bool awaits_requests() const;
    /// Whether holders must be polled every kLookEvery: a client waits for a holder that need not report its boundaries.
    bool polls() const;
    static constexpr Duration kLookEvery = milliseconds(1);
    static constexpr Duration kLookWhileClosed = microseconds(250);  ///< at requests, while gates are closed for them
    static constexpr Duration kLookSeldom = milliseconds(20);        ///< ... and if none has begun or ended ...
    static constexpr Duration kLookOftenFor = seconds(1);            ///< ... for so long
    /// Called when there is nothing else to do: writes the roster.
    void quiet();

    // ---- for the command line ----
    void set_policy(const Policy& policy);
    /// Takes over capacity, lanes, paging, minimum turn and rehoming time.
    void reconfigure(const Settings& settings);
    /// What the user's jobs may have together from now on. REQUIRES: told before the first of them is announced or attaches.
    void limit_user(UserId user, Limits limits);
    void pause(Session& session, bool paused);
    /// At its next boundary it gives up its lane and its memory on the device, until it is resumed.
    void suspend(Session& session, bool suspended);
    /// The job's process must not start, if it waits to, or may again.
    void hold(JobId job, bool held);
    /// If the client idles, its memory leaves the device until it next wants to run.
    void page_idle(Session& session);
    void adjust(Session& session, int priority, double weight, std::uint64_t iterations_total);
    /// All that its user has changed about the job by now.
    void apply(Session& session, const UserSettings& said);
    /// A class that its user has said stays.
    void set_class(Session& session, ClientClass found);

    const Engine& engine() const { return engine_; }
    const std::map<ClientId, std::unique_ptr<Session>>& sessions() const { return sessions_; }
    Session* find(ClientId id);
    ClientId lowest_free_id() const;
    Bytes held_by_orphans() const { return held_by(orphans_); }
    Bytes used_by_others() const { return others_; }
    /// Share of the last second that clients spent inside iterations, all together, at most 1. Nothing: not known yet.
    std::optional<double> share_inside(Instant at) const;
    /// How far off expectations of iterations were.
    std::optional<PaceWatch::Median> pace() const;
    /// Whether this process was a client of the previous service and has not attached again.
    bool is_orphan(const ProcessId& process) const;

private:
    /// How often we ask the kernel whether processes are stopped, or have gone silently.
    static constexpr Duration kLookAtProcessesEvery = milliseconds(100);

    Instant now() const { return ports_.clock.now(); }
    template <typename... Args>
    void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
        if (ports_.journal.logs(level)) ports_.journal.log(level, fmt::format(format, std::forward<Args>(args)...));
    }

    // ---- events in ----
    void feed(const Event& event);
    void deliver(const Event& event);
    void tell_of_others();
    void look_at_requests(Session& session);
    void look_at_all_requests();
    void look_who_runs_again();
    Duration look_at_requests_every() const;
    void arm();
    void show_others(Session& session) const;
    void tell_progress(Session& session);
    void forget_past_length(Session& session);
    void tell_progress_of_holders();
    void turn_is_over(Session& session);
    void tell_need(const Session& session);
    void look_at_holders();
    bool anybody_waits() const;
    bool rests(const Session& session) const;
    bool any_holder_is_misjudged() const;
    void look_for_idle_later();
    void set_inert(Session& session, bool Session::*reason, bool value);
    void look_whether_asleep(Session& session);
    Duration time_inside(Instant at) const;
    void remove(Session& session);
    bool complain(const Session& session, std::string_view why);

    // ---- actions out ----
    Bytes allow(Session& session, Bytes persistent);
    void perform(const action::Start& a);
    void perform(const action::Grant& a);
    void perform(const action::Yield& a) { take_back(a.client); }
    void perform(const action::Revoke& a) { take_back(a.client); }
    void perform(const action::AssignLane& a);
    void perform(const action::ResizeLane& a);
    void perform(const action::CloseLane& a);
    void perform(const action::Room& a);
    void perform(const action::Deny& a);
    void perform(const action::PageOut& a);
    void perform(const action::PageIn& a);
    void perform(const action::CloseGates&) { close_gates(); }
    void perform(const action::OpenGates& a);
    void close_gates();
    void perform(const action::Refuse& a);
    void perform(const action::Drop& a);
    void perform(const action::FallBack& a);
    void perform(const action::Admit& a);
    void perform(const action::Wait&) {}  // nothing to do: the status asks the engine
    void take_back(ClientId id);
    void wake_granted();
    void send(ClientId id, const wire::Message& message);
    void sent(Session& session, Connections::Sent outcome);
    void renew_lane_of(const Client& client, const Session& session);
    bool map_lane(Session& session, const wire::MapLane& message);
    void map_again(Session& session);
    void map_late_lanes();
    static bool waits_for_lane(const Session& session);
    void answer_need(Session& session, Bytes room);
    void deny_need(Session& session);
    void withdraw_need(Session& session);
    void explain_denial(const Session& session, wire::NeedAnswer& denial) const;
    Result<bool> send_pieces(ClientId id, LaneId lane, Bytes size);
    void tidy_lanes();

    // ---- restarts ----
    void keep_roster();
    void look_at_orphans();

    // ---- what the device reports ----
    void set_capacity();
    void set_min_turn();
    void set_context();
    /// What a look at the device has shown.
    struct Look {
        std::optional<DeviceMemory::Usage> usage;
        std::vector<event::Observe> news;  ///< clients that use more than the engine knows
    };
    Look look(const Session* only, bool may_fall);
    void look_for_more(const Session* only = nullptr);
    void tell_observed(const std::vector<event::Observe>& news);
    void tell_rest(Session& session);
    void note_page_rate(ClientId id, Residency moving, std::uint64_t moved, std::uint64_t ns);
    Bytes demand_of(const Session& session) const;

    const Ports ports_;
    DeviceMemory& memory_;
    bool min_turn_is_fixed_;
    bool pages_;
    std::string page_directory_;
    Bytes capacity_;             ///< if nobody else used the device
    const Bytes context_guess_;  ///< the least memory that a process takes before it attaches; 0: nothing
    Bytes others_;               ///< used by processes that are not clients
    Engine engine_;
    std::map<ClientId, std::unique_ptr<Session>> sessions_;
    std::map<JobId, ConnectionId> runners_;  ///< of jobs that were announced
    std::deque<Event> outbox_;               ///< events that are not delivered yet; performing actions adds some
    bool delivering_ = false;
    Bytes reserved_shown_;            ///< on the clients' pages
    std::size_t sessions_shown_ = 0;  ///< ...
    std::vector<ClientId> to_wake_;
    std::map<LaneId, Bytes> lanes_;  ///< sizes provided by the device
    InsideWatch inside_;
    Duration inside_gone_;  ///< of the clients that have left
    PaceWatch paces_;
    std::vector<RosterEntry> orphans_;  ///< clients of the previous service that have not attached again
    std::vector<RosterEntry> roster_;   ///< as last written
    bool roster_changed_ = false;
    bool classes_changed_ = false;  ///< since arm()
    Instant look_at_processes_at_ = kNever;
    Instant look_at_usage_at_ = kNever;
    Instant look_for_idle_at_ = kNever;  ///< where clients that idle for long are paged out
    Instant map_again_at_ = kNever;
    Instant requests_changed_at_{};
    mutable bool may_await_requests_ = false;  ///< false: no session has a request in flight
    std::function<void(const Session&)> tell_departure_ = [](const Session&) {};
};

}  // namespace salus::shell
