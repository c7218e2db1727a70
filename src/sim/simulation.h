// The simulator: the real engine, driven through virtual time by simulated clients.
//
// It does what the service and its clients do (turns, mappings, paging, faults) and nothing that they could not: all
// decisions are the engine's. The device's speed is shared: clients that run at once slow each other down only when their
// occupancies add up to more than 1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "base/random.h"
#include "core/engine.h"
#include "sim/job.h"

namespace salus::sim {

/// Something that happens to the system from outside, right after its `at_event`-th event.
struct Disturbance {
    enum class Kind : std::uint8_t { kKill, kStop, kContinue, kPolicy, kCapacity };
    std::uint64_t at_event = 0;
    Kind kind{};
    ClientId client = kNoClient;
    const Policy* policy = nullptr;
    Bytes capacity;
};

struct SimulationOptions {
    EngineOptions engine;
    Duration switch_cost = microseconds(145);  ///< lost when a lane changes hands (H200 without MPS)
    double map_us_per_mib = 1.1;               ///< import, map and set access of a lane (H200: 6.5 ms for 6 GiB)
    Duration answer_delay_max;                 ///< the swarm: clients answer requests after up to this long
    bool profiles_known = false;               ///< P and T are known on arrival
    bool announces = false;                    ///< jobs are announced, and attach when they are told to start
    std::optional<double> occupancy;           ///< overrides every job's
    std::uint64_t seed = 1;                    ///< think times and delays
    std::uint64_t events_max = 0;              ///< give up after so many; 0: never
    std::vector<Disturbance> disturbances;     ///< in order of at_event
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
    Statistics statistics;
    Instant end;        ///< of the last job
    Duration busy;      ///< time with at least one iteration running, switching included
    Bytes memory_peak;  ///< the most in use at once: P on the device, lanes, what a profiling turn uses
    Bytes static_peak;  ///< what static partitioning would have needed: the most P + T present at once
    std::uint64_t events = 0;
    std::uint64_t iterations = 0;
    bool finished = false;  ///< every job came to an end
};

/// A stretch of time in which a client ran without a break.
struct Segment {
    ClientId client;
    LaneId lane;  ///< kNoLane: a profiling turn
    Instant start;
    Instant end;
};

class Simulation;

/// Looks on. All calls are optional to override.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void after_event(const Event&, Instant, std::span<const Action>, const Simulation&) {}
    virtual void ran(const Segment&) {}
};

/// A simulated client, as its own process would know itself.
struct SimulatedClient {
    enum class Phase : std::uint8_t { kNotArrived, kAnnounced, kOnHost, kWaiting, kRunning, kStalled, kGone };
    struct Mapped {
        LaneId lane;
        Bytes size{};
    };

    Phase phase = Phase::kNotArrived;
    bool has_grant = false;
    bool grant_kept = false;  ///< idle with the grant
    bool asked_to_yield = false;
    bool revoking = false;  ///< the grant is taken, the answer not sent yet
    bool stopped = false;
    bool resumed = false;      ///< in this turn it went on after having been stopped or stalled
    bool want_is_due = false;  ///< it wants to run, and cannot say so yet
    LaneId lane = kNoLane;     ///< of the grant
    Bytes room;                ///< private memory it was told it may use
    Bytes persistent;          ///< true use now
    Bytes unasked;             ///< of it, what it took without asking
    Bytes ephemeral;
    bool persistent_on_device = false;
    std::vector<Mapped> mapped;  ///< what it really has mapped
    std::size_t growths = 0;     ///< of the job's, how many have come
    bool demand_told = false;

    std::uint64_t iterations = 0;  ///< done
    std::uint64_t reported = 0;
    std::uint64_t leg = 0;  ///< iterations it is to run before it next has something to say
    double work_ns = 0;     ///< done of this leg, at full speed; negative: the switch is still being paid
    double rate = 1;
    Instant finish;  ///< of the leg, at the present rate
    Instant segment_start;
    Instant answers_until{};  ///< answers keep their order

    Bytes mapped_size(LaneId lane) const;
};

class Simulation {
public:
    /// `jobs`, the policies and the observers must outlive the simulation. Job i is client i.
    Simulation(const SimulationOptions& options, std::span<const Job> jobs, const Policy& policy, const Policy& fallback);

    void observe(Observer& observer) { observers_.push_back(&observer); }

    /// `progress` is called now and then with the share of jobs that have ended.
    SimulationResult run(const std::function<void(double)>& progress = {});

    const Engine& engine() const { return engine_; }
    const Policy& first_policy() const { return first_policy_; }
    std::span<const Job> jobs() const { return jobs_; }
    const SimulatedClient& client(ClientId id) const { return clients_[index_of(id)]; }
    std::span<const SimulatedClient> clients() const { return clients_; }
    const SimulationOptions& options() const { return options_; }
    Instant now() const { return now_; }

private:
    struct Pending {
        enum class Kind : std::uint8_t { kAnnounce, kArrive, kWant, kMapped, kPagedOut, kPagedIn, kRevoked };
        Instant at{};
        std::uint64_t order = 0;
        Kind kind{};
        ClientId client = kNoClient;
        LaneId lane = kNoLane;
        Bytes size{};
        std::uint32_t version = 0;

        bool operator>(const Pending& other) const { return at > other.at || (at == other.at && order > other.order); }
    };

    void send(const Event& event);
    void perform(const action::Start& a);
    void perform(const action::Admit& a);
    void perform(const action::Grant& a);
    void perform(const action::Yield& a);
    void perform(const action::Revoke& a);
    void perform(const action::Room& a);
    void perform(const action::Deny& a);
    void perform(const action::Refuse& a);
    void perform(const action::AssignLane& a);
    void perform(const action::ResizeLane& a);
    void perform(const action::CloseLane& a);
    void perform(const action::PageOut& a);
    void perform(const action::PageIn& a);
    void perform(const action::Drop& a);
    void perform(const auto&) {}

    void announce(ClientId id);
    void withdraw(ClientId id);
    void arrive(ClientId id);
    void happen(const Pending& pending);
    void disturb(const Disturbance& disturbance);
    void kill(ClientId id, Outcome outcome);
    void finish(ClientId id, Outcome outcome);
    void start_leg(ClientId id, Duration overhead);
    void run_leg(ClientId id, Duration overhead);
    void cut_leg(ClientId id);
    void end_leg(ClientId id);
    void stop_running(ClientId id);
    void want(ClientId id);
    void answer_deferred(ClientId id);
    void tell_demand(ClientId id);
    void grow_if_due(ClientId id);
    bool has_what_it_needs(const SimulatedClient& c) const;
    void schedule(Pending pending);
    void schedule_answer(Pending pending, Duration least);
    void schedule_transfer(Pending::Kind kind, ClientId id, Bytes bytes);
    void update_rates();
    void spend_on_host(ClientId id, Duration time);
    double occupancy(ClientId id) const;
    void note_memory();
    Instant next_finish() const;

    SimulationOptions options_;
    std::span<const Job> jobs_;
    const Policy& first_policy_;
    Engine engine_;
    Random random_;
    Instant now_{};
    std::vector<SimulatedClient> clients_;
    std::vector<ClientId> runners_;
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> queue_;
    std::vector<std::vector<Pending>> deferred_;  ///< answers of clients that cannot answer yet
    std::vector<Event> outbox_;                   ///< events on their way to the engine, in order
    bool delivering_ = false;
    std::vector<std::pair<ClientId, Outcome>> dying_;  ///< because of what the engine just said
    std::vector<ClientId> ended_jobs_;                 ///< to be withdrawn
    std::vector<Observer*> observers_;
    SimulationResult result_;
    Bytes static_now_;
    Instant rates_at_{};
    Instant link_free_{};
    std::uint64_t next_order_ = 0;
    std::size_t next_disturbance_ = 0;
    std::size_t ended_ = 0;
};

}  // namespace salus::sim
