// The engine: who runs next, who shares a lane with whom, who is admitted.
//
// A state machine (event, now) -> actions. It has no clock, thread, socket, device or randomness in it; the service and
// the simulator are thin shells around it, and a recorded trace of events replays to identical actions.
// The states of a client are in client.h, the sums of memory in ledger.h, jobs whose process has not started in starts.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "core/client.h"
#include "core/gates.h"
#include "core/lanes.h"
#include "core/ledger.h"
#include "core/limits.h"
#include "core/overlap.h"
#include "core/policy.h"
#include "core/starts.h"
#include "core/types.h"

namespace salus {

struct EngineOptions {
    Bytes capacity;
    unsigned lanes_max = 0;  ///< lanes that may run at once; 0: as many as the policy wants
    bool overlap = false;    ///< batch clients run at once where that is measured to be faster: Note [Overlap]
    bool paging = true;
    Duration min_turn = microseconds(14500);  ///< long enough that switching costs at most 1 % of it
    double page_bytes_per_s = 12e9;           ///< measured; sets the minimum stay of a paged-in client
    double page_share_max = 0.01;  ///< paging in and out takes at most this share of a stay under a time-sliced policy
    Duration review_every = milliseconds(500);  ///< how often the ranks of waiters and residents are compared
    Duration reserve_after = minutes(30);       ///< a waiter that nothing else helps gets a reservation after this long
    Duration rehome_after = seconds(10);        ///< members of a lane whose holder is stopped move after this long
    Duration deny_after = seconds(10);          ///< a request waits this long for memory that may still become free
    unsigned profile_iterations = 2;
    Bytes context;               ///< memory that a process takes before it attaches; 0: none, and jobs start at once
    Duration page_idle_after;    ///< a client that idles for so long is paged out, even for nobody; 0: never
    bool share_by_user = false;  ///< time is shared between users first, then between the clients of each: Note [Users]
    unsigned user_jobs_max = 0;  ///< announced jobs of a user that may run at once, unless SetUserLimits says otherwise ...
    Bytes user_memory_max;       ///< ... and P and lanes of a user's clients; 0: no limit
    /// For the simulator and tests: a misbehaving policy fails a check instead of falling back, and each event is audited.
    bool strict = false;
};

/// What the engine has done so far. One struct feeds every viewer.
struct Statistics {
    std::uint64_t turns = 0;     ///< grants given
    std::uint64_t switches = 0;  ///< grants to another client than the lane's last
    std::uint64_t yields_asked = 0;
    std::uint64_t revokes = 0;
    std::uint64_t admissions = 0;
    std::uint64_t refusals = 0;
    std::uint64_t denials = 0;
    std::uint64_t page_outs = 0;
    std::uint64_t page_ins = 0;
    Bytes paged;  ///< both directions
    std::uint64_t profiling_turns = 0;
    std::uint64_t lanes_opened = 0;
    std::uint64_t lane_resizes = 0;
    std::uint64_t rehomings = 0;
    std::uint64_t reservations = 0;
    std::uint64_t fallbacks = 0;
    std::uint64_t gate_closings = 0;
    Bytes reserved_peak;

    // For the metrics; not in the JSON.
    Histogram turn_times{.least = milliseconds(1)};        ///< from the grant until it is back
    Histogram handover_times{.least = microseconds(10)};   ///< from the request to give a lane back until it is back
    Histogram admission_waits{.least = milliseconds(10)};  ///< of newcomers, to start and until their first turn
    Histogram page_out_times{.least = milliseconds(1)};
    Histogram page_in_times{.least = milliseconds(1)};
    Bytes paged_out{};  ///< these two only grow: a client that could not be paged out does not count
    Bytes paged_in{};
};

/// Clients that share time with each other: those of a user, or all if time is shared by job. Note [Virtual time].
struct Account {
    double clock_s = 0;                                   ///< of its contending clients
    double admitted_clock_s = 0;                          ///< of those with a lane
    double time_s = 0;                                    ///< its own virtual time; 0 if there is one account only
    double least_contending_s = 0, least_admitted_s = 0;  ///< as of the last advance_virtual_clocks()
};

class Engine {
public:
    /// Both policies must outlive the engine. `fallback` takes over when `policy` misbehaves.
    Engine(const EngineOptions& options, const Policy& policy, const Policy& fallback);

    /// Takes one event and returns the actions to perform, in order. The span is valid until the next call.
    /// REQUIRES: `now` never goes back.
    std::span<const Action> handle(const Event& event, Instant now);

    /// The latest time at which a Timer event is due; kNever if none is.
    Instant deadline() const;

    // ---- what viewers and checkers may look at ----
    const EngineOptions& options() const { return options_; }
    const Policy& policy() const { return *policy_; }
    const Lanes& lanes() const { return lanes_; }
    const Starts& starts() const { return starts_; }
    WaitReason why_waits_to_start(JobId job) const { return starts_.why_waits(job, options_.context, now_); }
    const Statistics& statistics() const { return statistics_; }
    /// Memory that a newcomer cannot have.
    Bytes taken(Instant now) const { return starts_.taken(options_.context, now); }
    /// How long the job's process has waited to start; 0 if it was not announced.
    Duration waited_to_start(JobId job, Instant now) const { return starts_.waited(job, now); }
    /// Recomputes the sums, counts and lists that events change step by step, and checks that they are right.
    void audit() const;
    std::span<const Client* const> clients() const { return clients_.all(); }  ///< in order of attachment
    const Client* find(ClientId id) const { return clients_.find(id); }
    Bytes capacity() const { return ledger_.capacity(); }
    Bytes reserved() const { return ledger_.reserved(); }
    ClientId reserved_for() const { return reserved_for_; }
    ClientId profiling() const { return profiling_; }
    const Gates& gates() const { return gates_; }
    /// Note [Measured turns] in together.cpp.
    bool measures_overlap() const;
    /// Whether a newcomer may join a lane in use. Where overlap is measured, lanes say nothing of who runs at once.
    bool shares_lanes() const { return policy_->info.shares_lanes || measures_overlap(); }
    const Overlap& overlap() const { return overlap_; }
    const Overlap::Turn& turn() const { return turn_.plan; }
    bool turn_is_ending() const { return turn_.is_ending; }
    bool is_beside(const Client& client) const { return client.lane != kNoLane && lanes_.find(client.lane)->beside; }
    /// Whether a request of the client is being worked on: somebody waits for the answer, and it waits for nothing itself.
    bool is_answering(const Client& client) const;
    /// Memory time up to now, in gibibyte-seconds: P while on the device, T while running.
    double memory_time_gib_s(const Client& client, Instant now) const;
    /// One user has the device at a time, and runs in all of their lanes: Note [Users] in turns.cpp.
    bool one_user_at_a_time() const {
        return options_.share_by_user && options_.lanes_max == 0 && policy_->info.time_sliced;
    }
    Limits limits_of(UserId user) const { return limits_.of(user); }
    /// Whether its user has no room for it: Note [Limits of a user] in admission.cpp.
    bool is_over_limit(const Client& client) const;
    /// Why it waits, and behind whom if behind anyone. Cheap: asked of every client after each event.
    std::pair<WaitReason, ClientId> why_waits(const Client& client) const;
    /// The same for people, who want to know in each case who is in the way.
    std::pair<WaitReason, ClientId> explain_wait(const Client& client) const;

private:
    // So many newcomers may profile beside each other, and each gets this part of the capacity.
    static constexpr std::ptrdiff_t kProfileBeside = 8;
    static constexpr std::int64_t kShareBeside = 64;

    bool precedes_by_policy(const Client& a, const Client& b) const;
    std::pair<WaitReason, ClientId> why_not_profiled(const Client& newcomer) const;
    ClientId first_before(const Client& client) const;
    ClientId with_most_memory_beside(const Client& client) const;

    friend class Saboteur;  // breaks the engine for the swarm's canaries: sim/saboteur.h

    /// Which clients the state of the residents keeps from the device.
    enum class Barred : std::uint8_t { kNobody, kNewcomersThatCannotBePaged, kThoseThatCannotBePaged, kAll };

    // ---- engine.cpp: events ----
    void on(const event::Announce& e);
    void on(const event::Withdraw& e) { starts_.withdraw(e.job); }
    void on(const event::Attach& e);
    void on(const event::Demand& e);
    void on(const event::Need& e);
    void on(const event::Observe& e);
    void on(const event::Unpageable& e);
    void on(const event::SetRest& e);
    void on(const event::Progress& e);
    void on(const event::Want& e);
    void on(const event::Boundary& e);
    void on(const event::Idle& e);
    void on(const event::Acknowledge& e);
    void on(const event::PagedOut& e);
    void on(const event::PagedIn& e);
    void on(const event::Leave& e);
    void on(const event::Die& e);
    void on(const event::Stop& e);
    void on(const event::Continue& e);
    void on(const event::Hold& e);
    void on(const event::Suspend& e);
    void on(const event::Resume& e);
    void on(const event::PageIdle& e);
    void on(const event::Adjust& e);
    void on(const event::JoinCrew& e);
    void on(const event::SetClass& e);
    void on(const event::Requests& e);
    void on(const event::Recall& e);
    void on(const event::SetPolicy& e);
    void on(const event::SetLimits& e);
    void on(const event::SetUserLimits& e);
    void on(const event::SetMinTurn& e) { options_.min_turn = e.min_turn; }
    void on(const event::SetPageRate& e) { options_.page_bytes_per_s = e.bytes_per_s; }
    void on(const event::SetCapacity& e);
    void on(const event::SetContext& e) { options_.context = e.context; }
    void on(const event::RenewLane& e);
    void on(const event::Timer& e);

    Client* known(ClientId id);  ///< nullptr (and a Drop) if there is none
    void drop(ClientId id, ProtocolFault fault);
    void forget_past_turns();
    void stall(Client& client);
    void unstall(Client& client);
    void remove(Client& client);
    void settle();
    Situation situation() const { return {now_, typical_service_}; }
    Rank checked_rank(const Client& client);
    bool ranks_before(const Client& a, const Client& b);
    void fall_back(PolicyFault fault);
    template <typename A>
    void act(const A& action) {
        actions_.emplace_back(action);
    }

    // ---- turns.cpp: who runs ----
    void dispatch();
    Client* first_in_turns();
    void dispatch_exclusive();
    void dispatch_capped();
    void dispatch_by_user();
    void leave_one_user();
    std::vector<Client*> live_holders();
    void contend_between_users(UserId next);
    bool dispatch_profiling();
    bool profiler_has_device() const;
    Client* next_to_profile();
    bool may_profile_now(const Client& newcomer, Barred barred);
    bool runs_before_profiling(const Client& other, const Client& newcomer) const;
    bool profile_beside();
    static bool profiles_now(const Client* client);
    void start_profiling_turn(Client& client, Bytes room);
    void end_profiling_turn(Client& client);
    void move_turn(Client& client, Turn to);
    void grant(Lane& lane, Client& client);
    Client* choose(Candidates candidates);
    void became_ready(Client& client);
    void contend(Lane& lane, const Client& newcomer);
    void contend_everywhere();
    void contend_for_slots();
    bool still_goes_first(const Lane& lane);
    void ask_yield(Client& holder);
    void ask_one(Client& holder);
    void yield_if_idle(Client& client);
    void release_lane(Client& client);
    void give_back(Client& client);
    void move_by_class(Client& client);
    void decide_gates();
    /// Whether a holder that idles makes way for others in the lane.
    bool is_work_conserving(const Lane& lane) const { return lane.beside || !policy_->info.exclusive; }
    void charge_time(Client& client, Duration idle = {});
    void count_iterations(Client& client, std::uint64_t iterations);
    bool update_ready(Client& client);
    void set_account_time(Account& account, double time_s);
    void advance_virtual_clocks(const Client* joining);
    void level_account(Client& client);
    void level_virtual_time(Client& client);
    void level_with_admitted(Client& client);
    void level_with_members(Client& client, const Lane& lane);
    void join_turns(Client& client);
    std::size_t running_lanes() const;

    // ---- crews.cpp: who runs together ----
    static bool are_mates(const Client& a, const Client& b);
    static bool is_live(const Client& client) { return client.holds() && !client.stopped && !client.stalled; }
    std::vector<Client*> mates_of(const Client& client);
    const Client* leader_of(const Client& client) const;
    bool mate_runs(const Client& client);
    bool any_mate_is_live(const Client& client);
    bool may_accompany(const Client& client) const;
    void run_crews();
    void come_in(Client& client);
    void accompany(Client& client, const Client& leader);
    void bring_mates(Client& leader);
    void pass_on(Client& left, bool taken_back);
    void lead(Client& heir);
    void step_aside(Client& stopped);
    void level_crew(Client& client);

    // ---- together.cpp: who runs at once because that is faster ----
    struct TurnPart {
        ClientId client = kNoClient;
        Instant from;
        std::uint64_t steps = 0;  ///< done before
        Duration dead;            ///< the turn's, before
        Duration closed;          ///< time that gates were closed, before
        bool is_over = false;
        Overlap::Part did = {};  ///< if it is over
    };
    /// The turn that is on.
    struct MeasuredTurn {
        Overlap::Turn plan;
        Instant begun_at;
        std::vector<TurnPart> parts;
        bool is_disturbed = false;  ///< what is measured does not count
        bool is_ending = false;     ///< its slowest client has been asked to yield, and the others will be
        Instant look_at = kNever;
        Duration dead;  ///< time in which nobody ran
        Instant dead_since = kNever;
    };
    bool may_run_in_company(const Client& client) const;
    TurnPart* part_of(const Client& client);
    std::vector<Client*> turn_holders();
    std::vector<Client*> companions_of(const Client& client);
    bool companion_runs(const Client& client);
    void dispatch_measured();
    void expect_by_occupancy(const Client& newcomer);
    void leave_companies(Client& client);
    void stop_strangers();
    std::vector<ClientId> could_run_with(const Client& first) const;
    bool have_own_lanes(const Overlap::Set& members) const;
    void begin_turn(Client& first);
    void let_companions_in();
    void enter_turn(const Client& client);
    void settle_turn_time();
    double share_of_time(const Client& client);
    Duration least_turn_of(const Client& holder);
    void end_turn_of(Client& holder);
    void leave_turn(const Client& client);
    Overlap::Part done_since(const TurnPart& part, const Client& client) const;
    void finish_turn();
    void look_at_turn();
    bool is_kept_out_by_limit(UserId user) const;
    bool anybody_waits_for_memory(UserId user) const;
    Bytes spare_memory(UserId user) const;
    void fold_for_who_waits();
    void separate_lanes();
    std::optional<LaneId> find_other_lane(const Client& client, const std::set<LaneId>& taken);
    bool fold_lanes_for(const Client& client);
    struct Fold {
        LaneId from, into;
        Bytes frees;
    };
    std::vector<Fold> folds_for(Bytes amount, std::optional<UserId> user) const;
    void fold(const std::vector<Fold>& folds);
    bool fold_lanes(Bytes amount, std::optional<UserId> user = {});
    bool fold_all_lanes();
    void close_spare_lanes();
    void fold_lane(LaneId from, LaneId into);

    // ---- memory.cpp: who is on the device, and where ----
    void balance();
    void apply_demand(Client& client);
    void repay_debts();
    void choose_profiler();
    void serve_stalled();
    void meet_need(Client& client);
    bool serve_another_newcomer();
    bool is_boundary_coming() const;
    Bytes missing(const Client& client) const;
    void reclaim(Bytes amount, const Client* on_behalf_of);
    void lend_lanes(Bytes amount, const Client& borrower);
    void deny_if_stuck();
    void rehome_from_stopped();
    void spread();
    void spread_beside();
    void trim_lanes();
    bool may_be_paged(const Client& client) const {
        return options_.paging && client.pageable && !client.page_refused && !client.all_stays();
    }
    bool may_evict(const Client& client) const;
    bool stands_its_ground(const Client& client) const;
    void enter_lane(Client& client, LaneId lane);
    void leave_lane(Client& client);
    void resize_lane(LaneId lane, Bytes size);
    void page_out_by_request();
    void page_out_idle_if_due(Client& client);
    void page_out(Client& client);
    void page_in(Client& client);
    void set_reserved(Client& client, Bytes bytes) { ledger_.set_reserved(client, bytes, now_); }
    void tell_waits();
    void look_again_at(Instant when) { balance_at_ = std::min(balance_at_, when); }

    // ---- admission.cpp: the way in ----
    void start_announced();
    enum class Admission : std::uint8_t { kDone, kUnderWay, kNo };
    void admit_waiters();
    /// How a client will run: whoever else runs, or in turns with others. Note [Beside] in turns.cpp.
    enum class Way : std::uint8_t { kBeside, kInTurns };
    Admission try_admit(Client& client, bool& may_page);
    Admission try_admit(Client& client, Way way, bool& may_page);
    std::optional<Placement> find_place(const Client& client, Way way) const;
    void admit(Client& client, const Placement& placement, Way way);
    LaneId prepare_lane(const Client& client, const Placement& placement, Way way);
    bool waits_for_memory(const Client& client) const;
    Barred entry_barred() const;
    bool is_back_soon(const Client& client) const;
    bool is_kept_out(const Client& client) const;
    bool is_kept_out_in_order(const Client& client);
    static bool has_entered(const Client& client);
    bool enters_before(const Client& earlier, const Client& later);
    bool may_enter(const Client& client, Barred barred);
    bool wants_lane(const Client& client) const;
    bool fits_without(const Client& newcomer, std::span<Client* const> removed, Way way = Way::kInTurns) const;
    struct Displaceable {
        std::vector<Client*> now;
        std::vector<Client*> in_time;  ///< because of their rank, after their minimum stay
    };
    Displaceable displaceable_by(const Client& waiter, Way way);
    std::vector<Client*> victims_for(const Client& waiter, const std::vector<Client*>& displaceable, Way way);
    Duration stay_min(const Client& client) const;
    Instant stays_until(const Client& resident) const;
    bool fits_beside_rests(const Client& client) const;
    bool waits_for_an_end(const Client& client) const;
    void reserve_for_oldest(std::span<Client* const> left_waiting);
    void squeeze_if_stuck(std::span<Client* const> left_waiting);
    std::vector<Client*> by_rank(std::vector<Client*> clients);
    void refuse_if_impossible(Client& client);
    void refuse(Client& client, Bytes need);
    Bytes most_for(const Client& client) const;

    EngineOptions options_;
    const Policy* policy_;
    const Policy* fallback_;
    Instant now_{};
    Clients clients_;
    Lanes lanes_;
    Ledger ledger_;
    LimitsByUser limits_;
    Starts starts_;
    Gates gates_;
    Overlap overlap_;
    MeasuredTurn turn_;                         ///< where overlap is measured
    Overlap::Set last_turn_;                    ///< who ran in the latest one
    Overlap::Set lanes_wanted_;                 ///< by clients that are to run at once
    std::map<UserId, Instant> lanes_tried_at_;  ///< the latest trial with more lanes than one
    std::vector<Action> actions_;
    std::vector<const ClientFacts*> scratch_;
    Statistics statistics_;
    Duration typical_service_ = minutes(1);
    Duration ended_service_;
    std::int64_t ended_jobs_ = 0;
    std::uint64_t next_sequence_ = 0;
    std::map<UserId, Account> accounts_;  ///< kept when their clients have left
    double account_clock_s_ = 0;          ///< Note [Virtual time]
    double admitted_account_clock_s_ = 0;

    bool memory_changed_ = false;    ///< balance() has something to look at
    bool boundary_awaited_ = false;  ///< a holder was asked to yield so that its memory can be used
    bool trim_wanted_ = false;       ///< somebody left: lanes shrink
    Instant balance_at_ = kNever;    ///< the latest time for balance()
    std::size_t stalled_ = 0;        ///< clients that wait in mid-iteration
    std::size_t unprofiled_ = 0;
    std::size_t in_crews_ = 0;   ///< clients that belong to a crew
    Instant crews_at_ = kNever;  ///< the latest time for run_crews()
    ClientId last_granted_ = kNoClient;
    ClientId reserved_for_ = kNoClient;
    ClientId profiling_ = kNoClient;  ///< holds, or gathers the lanes for, a profiling turn that has the device to itself
};

}  // namespace salus
