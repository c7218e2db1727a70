// The shell around the engine: turns what clients do into events, and the engine's actions into words, messages and memory.
//
// It knows clients, not sockets: whoever drives it hands it messages and tells it of deaths. All contact with the world is
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

#include "base/run_figures.h"
#include "core/engine.h"
#include "shell/ports.h"
#include "wire/control_page.h"
#include "wire/control_word.h"
#include "wire/messages.h"

namespace salus::shell {

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
    std::uint64_t iterations_before = 0;  ///< done under the service before this one
    Instant waiting_since = kNever;       ///< kNever: it does not wait
    Duration waited;
    bool paused = false;                    ///< by `salus pause`
    bool stopped = false;                   ///< by a signal or a debugger
    bool asleep = false;                    ///< it holds a lane in mid-iteration, and does nothing
    Duration cpu_seen;                      ///< its time on processors, and ...
    Instant cpu_seen_at;                    ///< ... when that was last seen to move
    bool disconnected = false;              ///< its process is, or may be, still there
    std::uint64_t need = 0;                 ///< the number of its last Need in this turn; 0: none
    bool asks = false;                      ///< that one is not answered yet
    LaneId pieces_of = kNoLane;             ///< whose memory it has been sent ...
    std::size_t pieces = 0;                 ///< ... so many pieces of
    std::optional<wire::MapLane> unmapped;  ///< what it was not told: the device had no memory for it
    Bytes overhead_last_seen;
    Bytes overhead;  ///< what it uses beyond what it manages: its context, the framework's own allocator

    // As far as the engine has been told.
    std::uint64_t iterations_told = 0;
    std::uint64_t busy_told_ns = 0;
    Instant told_at;
    Bytes persistent_told;
    Bytes ephemeral_told;
    double occupancy = 1;

    RunFigures past;              ///< what earlier runs of its command showed
    bool length_is_past = false;  ///< its iterations_total is that of an earlier run, and may be wrong

    control::Word word() const { return control::unpack(page->word.load(std::memory_order_acquire)); }
    bool inert() const { return paused || stopped || asleep; }
};

/// Time inside iterations, the present one included.
std::uint64_t busy_ns_of(const Session& session, Instant at);

struct Settings {
    EngineOptions engine;  ///< its capacity: what jobs may use in all, if nobody else used the device
    const Policy* policy = nullptr;
    const Policy* fallback = nullptr;
    bool min_turn_is_fixed = false;  ///< else it follows what turns are seen to cost
};

class Shell {
public:
    Shell(const Settings& settings, const Ports& ports);

    // ---- what the server tells ----
    /// What is known of a job when its runner announces it.
    struct Announcement {
        JobId job = kNoJob;
        ConnectionId runner = 0;  ///< is told Start, if the job has to wait for it
        Bytes persistent;         ///< what an earlier run kept; 0: not known
        bool runs = false;        ///< its process was started under an earlier service
        bool waited = false;      ///< it waited to start under an earlier service
    };
    /// True: its process may start at once, or runs. Else its runner is told when.
    bool announce(const Announcement& announcement);
    /// The job's runner is gone, and its clients are. Jobs that were not announced are ignored.
    void withdraw(JobId job);
    /// Takes a client in. An error is one line for it. `session` has id, process, uid, connection and page.
    /// REQUIRES: the id is free.
    Result<Session*> attach(std::unique_ptr<Session> session, const wire::Attach& attach);
    /// A message of an attached client. False: it broke the protocol or has left, and its connection is to be closed.
    bool message(Session& session, const wire::Message& message);
    /// It signalled that its word has changed.
    void notified(Session& session);
    /// Its socket is closed, but its process is not known to be gone.
    void disconnected(Session& session);
    /// Its process is gone. The session is no more.
    void died(Session& session);

    /// What is known of its command, if that comes after it attached: from then on it counts as stated, unless more was.
    void expect(Session& session, const RunFigures& past);
    /// `tell` hears of each client that leaves or dies, just before it is forgotten.
    void on_departure(std::function<void(const Session&)> tell) { tell_departure_ = std::move(tell); }
    /// Asks the device what its processes use.
    void look_at_usage();
    /// What a client has shown so far.
    RunFigures figures_of(const Session& session) const;

    /// Whatever is due now: timers, holders that idle, processes that stopped.
    void tick();
    /// When tick() is next needed, at the latest.
    Instant next_tick() const;
    /// As next_tick(), for one who knows when holders begin and end iterations: those are not polled.
    Instant due() const;
    /// Whether holders are to be looked at every kLookEvery: somebody waits for one that need not say what it does.
    bool polls() const;
    static constexpr Duration kLookEvery = milliseconds(1);
    /// Nothing else to do just now: write down who holds what.
    void quiet();

    // ---- what the command line asks ----
    void set_policy(const Policy& policy);
    void pause(Session& session, bool paused);
    void adjust(Session& session, int priority, double weight, std::uint64_t iterations_total);

    const Engine& engine() const { return engine_; }
    const std::map<ClientId, std::unique_ptr<Session>>& sessions() const { return sessions_; }
    Session* find(ClientId id);
    ClientId lowest_free_id() const;
    Bytes held_by_orphans() const { return held_by(orphans_); }
    /// Whether this process was a client under the service before this one, and has not come again.
    bool is_orphan(const ProcessId& process) const;

private:
    Instant now() const { return ports_.clock.now(); }
    template <typename... Args>
    void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
        if (ports_.journal.logs(level)) ports_.journal.log(level, fmt::format(format, std::forward<Args>(args)...));
    }

    // ---- events in ----
    void feed(const Event& event);
    void deliver(const Event& event);
    void tell_of_others();
    void tell_progress(Session& session);
    void tell_progress_of_holders();
    void turn_is_over(Session& session);
    void look_at_holders();
    bool anybody_waits() const;
    bool rests(const Session& session) const;
    bool any_holder_is_misjudged() const;
    void set_inert(Session& session, bool Session::*reason, bool value);
    void look_whether_asleep(Session& session);
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
    void perform(const action::Refuse& a);
    void perform(const action::Drop& a);
    void perform(const action::FallBack& a);
    void perform(const action::Admit& a);
    void perform(const action::Wait&) {}  // who wants to know asks the engine
    void take_back(ClientId id);
    void wake_granted();
    void send(ClientId id, const wire::Message& message);
    void sent(Session& session, Connections::Sent outcome);
    void renew_lane_of(const Client& client, const Session& session);
    bool map_lane(Session& session, const wire::MapLane& message);
    void map_again(Session& session);
    void answer_need(Session& session, Bytes room);
    void deny_need(Session& session);
    Result<bool> send_pieces(ClientId id, LaneId lane, Bytes size);
    void tidy_lanes();

    // ---- restarts ----
    void keep_roster();
    void look_at_orphans();

    // ---- what the device says ----
    void set_capacity();
    void set_min_turn();
    void set_context();
    Bytes demand_of(const Session& session) const;

    const Ports ports_;
    DeviceMemory& memory_;
    const bool min_turn_is_fixed_;
    const Bytes capacity_;       ///< if nobody else used the device
    const Bytes context_guess_;  ///< what a process takes before it attaches, at least; 0: nothing
    Bytes others_;               ///< used by processes that are no clients
    Engine engine_;
    std::map<ClientId, std::unique_ptr<Session>> sessions_;
    std::map<JobId, ConnectionId> runners_;  ///< of jobs that were announced
    std::deque<Event> outbox_;               ///< what performing actions brought about
    bool delivering_ = false;
    Bytes reserved_shown_;            ///< on the clients' pages
    std::size_t sessions_shown_ = 0;  ///< ...
    std::vector<ClientId> to_wake_;
    std::map<LaneId, Bytes> lanes_;     ///< provided by the device
    std::vector<RosterEntry> orphans_;  ///< clients of the service before this one
    std::vector<RosterEntry> roster_;   ///< as it is on disk
    bool roster_changed_ = false;
    Instant look_at_processes_at_ = kNever;
    Instant look_at_usage_at_ = kNever;
    Instant map_again_at_ = kNever;
    std::function<void(const Session&)> tell_departure_ = [](const Session&) {};
};

}  // namespace salus::shell
