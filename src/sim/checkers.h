// Independent checkers: what must hold after every event, worked out from what clients really have and do.
//
// They believe the engine only where it speaks of intentions (its policy, its reservations for debts); memory, grants and
// iterations are counted on the clients' side. A violation is a failed check.
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

    /// Once the run is over: everybody came to an end that is justified.
    static void check_end(const Simulation& simulation, const SimulationResult& result);

private:
    void check_memory(const Event& event, const Simulation& s);
    void check_lanes(const Simulation& s) const;
    void check_iterations(const Event& event, const Simulation& s);
    void check_denials(std::span<const Action> actions, const Simulation& s) const;
    void check_work_conservation(const Simulation& s) const;
    void check_progress(const Event& event, const Simulation& s);
    void check_starts(const Event& event, Instant now, std::span<const Action> actions, const Simulation& s);

    struct Wait {
        Instant since = kNever;  ///< of wanting to run, or of the last disturbance that explains waiting
        Duration bound;          ///< the largest in that time: those it waited for may have left
        bool excused = false;    ///< up to the last event
    };
    std::vector<Wait> waits_;
    std::size_t service_ = 0;              ///< the one that is looked at
    std::set<JobId> announced_;            ///< to it, and neither told to start nor withdrawn
    Instant others_there_{};               ///< when somebody else was last there, or no job waited to start
    std::vector<std::uint64_t> reported_;  ///< iterations, a client, since it attached
    std::vector<std::uint64_t> before_;    ///< and those before
    Bytes capacity_excuse_;                ///< in use beyond the capacity since it fell
    std::uint64_t iterations_seen_ = 0;
    Instant last_progress_{};
    bool anybody_wanted_ = false;  ///< at the last event
    Instant last_event_{};
    bool was_stopped_ = false;  ///< somebody, at the last event
    Duration stopped_time_;     ///< with somebody stopped, who is charged for it if it holds a lane
};

}  // namespace salus::sim
