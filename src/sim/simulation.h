// The simulator: the service's shell and engine and the clients' half of the protocol, driven through virtual time.
//
// Only the world around them is simulated: processes and what they compute (clients.cpp), the device, connections and the
// faults of all three (world.h). Clients share the device's speed: clients that run at once slow each other down only if
// their occupancies add up to more than 1. Or the device works for one at a time, in slices (sliced_device.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "base/random.h"
#include "core/engine.h"
#include "shell/shell.h"
#include "sim/simulated_client.h"
#include "sim/simulated_job.h"
#include "sim/sliced_device.h"
#include "sim/world.h"

namespace salus::sim {

/// What the service knows of two clients' commands from earlier runs.
struct RecalledPair {
    ClientId a = kNoClient, b = kNoClient;
    double rate = 1;
};

/// Something that happens to the system from outside, right after its `at_event`-th event.
struct Disturbance {
    enum class Kind : std::uint8_t {
        kKill,
        kKillRunner,
        kStop,  ///< by a signal
        kContinue,
        kPause,  ///< by its user
        kResume,
        kSuspend,       ///< by its user, too
        kBringBack,     ///< ... until then
        kPageIdle,      ///< its user wants its memory out if it idles
        kAdjust,        ///< sets `priority` and `weight`
        kNeverPage,     ///< the client finds that it cannot be paged
        kClass,         ///< the client's class changes
        kCrew,          ///< the client joins its crew
        kTurnCost,      ///< the client finds that its turns cost `time`
        kPolicy,        ///< sets `policy`
        kLimits,        ///< sets `lanes_max`, `paging`, `page_idle_after`, and `time` as rehome_after
        kUserLimits,    ///< sets those of the client's user: `jobs_max`, and `capacity` of memory
        kCapacity,      ///< others leave `capacity` of the device
        kContext,       ///< the client's context grows by `capacity`
        kNoLaneMemory,  ///< the device has no more memory for lanes ...
        kLaneMemory,    ///< ... and has some again
        kServiceDies,   ///< the service is killed, and a new one starts after `time`
    };
    std::uint64_t at_event = 0;
    Kind kind{};
    ClientId client = kNoClient;
    const Policy* policy = nullptr;
    Bytes capacity{};
    int priority = 0;
    double weight = 1;
    Duration time{};
    unsigned lanes_max = 0;
    bool paging = true;
    unsigned jobs_max = 0;
    Duration page_idle_after{};
};

/// What a canary does wrong, in one of 16 cases.
enum class Fault : std::uint8_t {
    kNone,
    kLosesAcknowledge,   ///< a client's answer about a lane does not arrive
    kAcknowledgesEarly,  ///< a client says that it has given up part of its lane, but has not
    kLosesPagedIn,       ///< a client does not say that its memory is back
    kForgetsRest,        ///< the engine counts what a paged-out client leaves on the device as free
    kLosesNotice,        ///< the service is not told that a grant is back, or wanted
    kLosesWake,          ///< a client is granted a turn but not woken
    kKeepsGrant,         ///< a client overlooks that the service wants its grant back
    kGrantsTwice,        ///< a second client gets the grant for a lane
    kCountsTwice,        ///< a client counts an iteration twice
    kForgetsMemory,      ///< the engine counts half of an admitted client's memory as free
    kForgetsWish,        ///< the engine forgets that a client wants to run
    kForgetsClass,       ///< the engine lets an interactive client take turns although there is memory for a lane beside
    kStaysBeside,        ///< the engine leaves a client that became batch in its lane beside
    kKeepsGateClosed,    ///< a client's gate is not opened with the others
    kClosesEveryGate,    ///< an interactive client's gate is closed, too
    kForgetsBudget,      ///< the engine forgets how long gates have been closed
    kLosesAnswer,        ///< the service is not told that a request was answered
    kForgetsCrew,        ///< the engine forgets that a client belongs to a crew
    kForgetsSuspension,  ///< the engine forgets that a client is suspended
    kKeepsSuspended,     ///< the engine leaves a suspended client's memory on the device
    kStartsHeld,         ///< the engine starts a suspended job
    kForgetsUsers,       ///< the engine forgets that one user has the device at a time
    kDecidesByNoise,     ///< the engine lets clients run at once after a trial or two, whatever they show
    kMixesCrews,         ///< the engine takes a client for a member of a crew that it does not belong to
};

struct SimulationOptions {
    EngineOptions engine;
    Duration switch_cost = microseconds(145);  ///< lost when a lane changes hands (H200 without MPS)
    Duration slice;                            ///< if not 0, the device works in slices (Note [Time slices])
    Duration lasts;                            ///< if not 0, jobs leave at their first boundary after this
    double map_us_per_mib = 1.1;               ///< import, map and set access of a lane (H200: 6.5 ms for 6 GiB)
    Duration answer_delay_max;                 ///< the swarm: clients answer requests after up to this time
    Duration gate_delay = microseconds(500);   ///< until a client's work comes to a gate that was closed
    Duration notice_delay_max;                 ///< the swarm: wake-ups and notifications take up to this time
    bool asynchronous = false;                 ///< the device still works when an iteration has ended, as a GPU does
    bool min_turn_is_fixed = true;             ///< else it follows the cost of turns
    double unclean_share = 0;                  ///< share of boundaries at which the lane cannot be cleared
    double page_failure_share = 0;             ///< share of page-outs that fail
    double page_speed = 1;                     ///< of the link, relative to what the service was told
    Fault fault = Fault::kNone;
    bool profiles_known = false;            ///< P and T are known on arrival
    bool tells_usage = false;               ///< the device reports the memory of its processes, as a GPU does
    bool announces = false;                 ///< runners announce jobs, and start them when they are told to
    std::optional<double> occupancy;        ///< overrides that of every job
    std::uint64_t seed = 1;                 ///< for think times and delays
    std::uint64_t events_max = 0;           ///< give up after so many events; 0: never
    Duration until;                         ///< if not 0, give up then
    std::vector<RecalledPair> recalled;     ///< what the service knows of earlier runs, true or not
    std::vector<Disturbance> disturbances;  ///< in order of at_event
};

enum class Outcome : std::uint8_t { kUnfinished, kDone, kKilled, kDenied, kRefused };

struct JobResult {
    Instant arrival;
    Instant first_run = kNever;
    Instant end = kNever;
    Outcome outcome = Outcome::kUnfinished;
    std::uint64_t iterations = 0;
    double memory_time_gib_s = 0;
};

struct SimulationResult {
    std::vector<JobResult> jobs;
    std::vector<Duration> latencies;  ///< of requests, from the time at which they came
    Statistics statistics;
    Instant end;        ///< of the last job
    Duration busy;      ///< time with at least one iteration running, switching included
    Bytes memory_peak;  ///< the most in use at once: P on the device, lanes, what a profiling turn uses
    Bytes static_peak;  ///< what static partitioning would have needed: the most P + T present at once
    std::uint64_t events = 0;
    std::uint64_t iterations = 0;
    bool finished = false;  ///< every job has ended, those that run on aside
};

/// A stretch of time in which a client ran without a break.
struct Segment {
    ClientId client;
    LaneId lane;  ///< kNoLane: a profiling turn
    Instant start;
    Instant end;
};

class Simulation;
using Phase = SimulatedClient::Phase;

/// Watches a simulation. Overriding is optional for all calls.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void after_event(const Event&, Instant, std::span<const Action>, const Simulation&) {}
    /// The shell has finished, and clients have received its messages.
    virtual void after_call(const Simulation&) {}
    virtual void ran(const Segment&) {}
};

class Simulation {
public:
    /// `jobs`, the policies and the observers must outlive the simulation. Job i is client i.
    Simulation(const SimulationOptions& options, std::span<const SimulatedJob> jobs, const Policy& policy,
               const Policy& fallback);

    void observe(Observer& observer) { observers_.push_back(&observer); }

    /// Calls `progress` now and then with the share of jobs that have ended.
    SimulationResult run(const std::function<void(double)>& progress = {});

    const Engine& engine() const { return shell_->engine(); }
    /// The policy with which the current service started.
    const Policy& first_policy() const { return *first_policy_; }
    /// The number of services started so far.
    std::size_t services() const { return services_; }
    std::span<const SimulatedJob> jobs() const { return jobs_; }
    const SimulatedClient& client(ClientId id) const { return world_.clients[index_of(id)]; }
    std::span<const SimulatedClient> clients() const { return world_.clients; }
    const SimulationOptions& options() const { return options_; }
    Instant now() const { return world_.now(); }
    /// Whether some client has lost its service and not found the next one yet.
    bool anybody_is_orphaned() const;
    bool has_lane_memory() const { return world_.has_lane_memory(); }

private:
    struct Pending {
        enum class Kind : std::uint8_t {
            kAnnounce,       ///< a runner looks for a service, to announce its job
            kRunnerGone,     ///< the service sees a runner's connection closed
            kArrive,         ///< a job's process has started
            kBegin,          ///< the client's thread has finished its work on the host
            kWake,           ///< the client's thread, which waits in begin(), looks at the word
            kDrained,        ///< the device has finished the client's work
            kHelperDone,     ///< the client's helper has finished a request
            kNotice,         ///< a notification of the client reaches the service
            kMessage,        ///< a message of the client reaches the service
            kClosed,         ///< the service sees the client's connection closed
            kExited,         ///< the service sees the end of the client's process
            kRequestDone,    ///< the device has finished a request of the client
            kGateHolds,      ///< the client's work on the device comes to its closed gate
            kLookAtGate,     ///< the client looks whether its gate has been closed for too long
            kEndAttachment,  ///< the client, whose service is gone, tries to leave its lane
            kReattach,       ///< the client looks for a service
            kServiceStarts,
        };
        Instant at{};
        std::uint64_t order = 0;
        Kind kind{};
        ClientId client = kNoClient;

        bool operator>(const Pending& other) const { return at > other.at || (at == other.at && order > other.order); }
    };

    // ---- simulation.cpp: time, and what reaches the service ----
    bool step();
    void happen(const Pending& pending);
    void disturb(const Disturbance& disturbance);
    void start_service();
    void limit_user(ClientId id);
    void kill_service(Duration down_for);
    /// Makes every call into the shell. The shell sees pages as of now; right after the call, clients receive its messages.
    template <typename Call>
    void with_shell(const Call& call) {
        publish_iterations();
        if (options_.tells_usage) publish_memory();
        call();
        withdraw_ended_jobs();
        take_in_news();
        heed_gates();
        look_after_processes();
        for (Observer* observer : observers_) observer->after_call(*this);
    }
    void take_in_news();
    void recorded(const Event& event, Instant at, std::span<const Action> actions);
    void note_memory();
    void publish_memory();
    bool everybody_is_gone() const;
    shell::Session* session_of(ClientId id);
    void hear_message(ClientId id);
    void tick();
    Instant next_poll() const;
    void forget_what_is_known();
    void look_after_processes();
    void schedule(Pending::Kind kind, ClientId id, Duration after);
    Duration draw(Duration most);
    bool goes_wrong(Fault fault);
    void grant_twice(const action::Grant& grant);
    void sabotage(const Event& event);
    SimulatedClient& at(ClientId id) { return world_.clients[index_of(id)]; }

    // ---- runners.cpp: what runners do ----
    static JobId job_of(ClientId id) { return JobId{static_cast<std::uint32_t>(index_of(id)) + 1}; }
    SimulatedRunner& runner_of(ClientId id) { return world_.runners[index_of(id)]; }
    void announce(ClientId id);
    void start_job(ClientId id);
    void end_runner(ClientId id);
    void kill_runner(ClientId id);
    void runner_is_gone(ClientId id);
    void withdraw_ended_jobs();
    void lose_service_of_runners();

    // ---- clients.cpp: what clients do ----
    void arrive(ClientId id);
    void attach(ClientId id);
    wire::Attach introduction_of(ClientId id) const;
    void lose_service(ClientId id);
    void end_attachment(ClientId id);
    void reattach(ClientId id);
    void never_page(ClientId id);
    void change_class(ClientId id);
    void join_crew(ClientId id);
    void begin(ClientId id);
    void look_at_word(ClientId id);
    void start_leg(ClientId id, Duration overhead);
    void go_on_if_given(ClientId id);
    bool has_what_it_needs(const SimulatedClient& c) const;
    void grow_if_due(ClientId id);
    void end_leg(ClientId id);
    void settle(ClientId id, bool drained);
    void after_boundary(ClientId id);
    Duration pause_of(ClientId id);
    bool is_over() const { return options_.lasts.ns > 0 && now() >= Instant{} + options_.lasts; }
    void leave(ClientId id);
    void die(ClientId id, Outcome outcome);
    void finish(ClientId id, Outcome outcome);
    void suspend(ClientId id, bool suspended);
    void stop_process(ClientId id);
    void continue_process(ClientId id);
    void notify(ClientId id);
    void say(ClientId id, const wire::Message& message);
    void help(ClientId id);
    void serve(ClientId id, const wire::Message& message);
    Duration time_for(ClientId id, const attachment::Request& request);
    Duration transfer_time(Bytes bytes);
    void helper_is_done(ClientId id);

    // ---- gates.cpp: gates and requests ----
    void request_begins(ClientId id);
    void request_ends(ClientId id);
    void request_is_done(ClientId id);
    void heed_gates();
    void gate_holds(ClientId id);
    void look_at_gate(ClientId id);
    void disarm(ClientId id);
    void expect_look_at_requests();
    void sabotage_gates(const Action& action);

    // ---- running.cpp: who runs how fast ----
    void run_leg(ClientId id, Duration overhead);
    void cut_leg(ClientId id);
    void stop_running(ClientId id);
    void resume_running(ClientId id);
    Duration draw_iteration_time(const SimulatedJob& job);
    void update_rates();
    void look_at_slices();
    void publish_iterations();
    void publish(ClientId id, std::uint64_t iterations);
    double occupancy(ClientId id) const;
    Instant next_finish() const;

    SimulationOptions options_;
    std::span<const SimulatedJob> jobs_;
    const Policy* first_policy_;
    const Policy& fallback_;
    std::size_t services_ = 0;
    Random random_;
    World world_;
    std::optional<SlicedDevice> sliced_;
    std::unique_ptr<shell::Shell> shell_;  ///< none while the service is down
    const Policy* policy_;                 ///< of the next service
    std::map<UserId, Limits> user_limits_;
    struct Recorded {
        Event event;
        std::vector<Action> actions;
    };
    std::vector<Recorded> early_;           ///< recorded while a shell was being constructed
    Statistics earlier_;                    ///< of earlier services
    std::vector<ClientId> runners_;         ///< clients that run
    std::vector<ClientId> without_runner_;  ///< their jobs' runners are gone, so the jobs end with these clients
    /// Holders that went from running to idle or back without telling the service, and when it next looks at them.
    struct Unheard {
        ClientId client;
        Instant look_at;
    };
    std::vector<Unheard> unheard_;
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> queue_;
    std::vector<Observer*> observers_;
    SimulationResult result_;
    Bytes static_now_;
    Instant rates_at_{};
    Instant link_free_{};
    std::uint64_t next_order_ = 0;
    std::size_t next_disturbance_ = 0;
    std::size_t ended_ = 0;
    std::size_t awaited_ = 0;            ///< jobs that have not ended and do not run on
    Instant look_at_requests_ = kNever;  ///< when the service finds that requests have ended or gates were opened
    std::size_t idle_ticks_ = 0;         ///< ticks of the shell in a row without an event
};

}  // namespace salus::sim
