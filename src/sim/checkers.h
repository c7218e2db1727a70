// Independent checkers: conditions that must hold after every event, computed from what clients really have and do.
//
// They trust the engine only about its intentions (its policy, its reservations for debts); memory, grants and iterations
// are counted on the clients' side. A violation is a failed check.
#pragma once

#include <set>
#include <vector>

#include "sim/simulation.h"

namespace salus::sim {

class Checkers : public Observer {
public:
    void after_event(const Event& event, Instant now, std::span<const Action> actions,
                     const Simulation& simulation) override;

    void after_call(const Simulation& simulation) override;

    /// Call it after the run: all jobs have ended, and nothing of them is left.
    static void check_end(const Simulation& simulation, const SimulationResult& result);

private:
    void check_memory(const Event& event, const Simulation& s);
    void check_lanes(const Event& event, const Simulation& s);
    static void check_users(const Simulation& s);
    void check_iterations(const Event& event, const Simulation& s);
    void check_denials(std::span<const Action> actions, const Simulation& s) const;
    void check_work_conservation(const Simulation& s) const;
    void check_classes(const Simulation& s);
    void check_gates(const Simulation& s);
    void check_suspensions(const Event& event, std::span<const Action> actions, const Simulation& s);
    void check_crews(const Event& event, std::span<const Action> actions, const Simulation& s);
    bool are_mates(std::size_t a, std::size_t b, const Simulation& s) const;
    void check_companies(const Simulation& s);
    void check_progress(const Event& event, const Simulation& s);
    void check_starts(const Event& event, Instant now, std::span<const Action> actions, const Simulation& s);

    struct Wait {
        Instant since = kNever;  ///< when it began to want to run, or the last disturbance that explains waiting
        Duration bound;          ///< the largest bound since then: clients that it waited for may have left
        bool excused = false;    ///< at the last event
    };
    std::vector<Wait> waits_;
    std::size_t service_ = 0;              ///< the number of the current service
    std::set<JobId> announced_;            ///< jobs announced to it, and neither told to start nor withdrawn
    Instant others_there_{};               ///< when a client was last attached, or no job waited to start
    std::vector<std::uint64_t> reported_;  ///< iterations of each client since it attached ...
    std::vector<std::uint64_t> before_;    ///< ... and before
    std::size_t lanes_excuse_ = 0;         ///< may run although fewer lanes are allowed now
    Bytes capacity_excuse_;                ///< may be in use beyond the capacity since the capacity fell
    std::uint64_t iterations_seen_ = 0;
    Instant last_progress_{};
    std::set<std::size_t> suspended_;        ///< clients, as the engine was told
    std::size_t suspensions_service_ = 0;    ///< the service that was told
    std::set<JobId> held_;                   ///< jobs, the same
    std::set<std::size_t> joined_;           ///< clients that the engine was told to take into their crews
    std::set<std::uint32_t> resumed_crews_;  ///< in this turn of theirs, one was stopped or stalled
    Instant could_move_since_ = kNever;      ///< an interactive client takes turns since then, and need not
    bool anybody_wanted_ = false;            ///< somebody wanted to run at the last event
    struct Span {
        Instant from, to;
    };
    std::vector<Span> closed_;         ///< when gates were closed by this service, of late; the last span goes on while
    bool were_closed_ = false;         ///< ... they are closed
    std::size_t gates_service_ = 0;    ///< the service that closed them
    Instant unneeded_since_ = kNever;  ///< gates are closed since then, and nobody is being answered
    std::vector<std::vector<ClientId>> companies_;  ///< at the last event
    Instant last_event_{};
    bool was_stopped_ = false;  ///< somebody was stopped at the last event or since, even if the service did not hear of it
    Duration stopped_time_;     ///< total time with somebody stopped; a stopped holder is charged for it
    Duration beside_time_;      ///< total time with a client beside
};

}  // namespace salus::sim
