// What runners do (`salus run`): each announces its job, starts the job's process when it is told to, and ends when the
// process has ended. After a restart of the service it announces the job again.
#include <utility>
#include <vector>

#include "sim/simulation.h"

namespace salus::sim {
namespace {

/// How long a runner waits before it looks again for a service.
constexpr Duration kLookAgainAfter = milliseconds(20);

}  // namespace

void Simulation::announce(ClientId id) {
    SimulatedRunner& runner = runner_of(id);
    if (runner.gone) return;
    if (at(id).phase == Phase::kNotArrived) at(id).phase = Phase::kAnnounced;
    if (!shell_) return schedule(Pending::Kind::kAnnounce, id, kLookAgainAfter);
    shell::Shell::Announcement announcement;
    announcement.job = job_of(id);
    announcement.runner = world_.connect_runner(id);
    announcement.persistent = jobs_[index_of(id)].states_length ? jobs_[index_of(id)].persistent : Bytes{};
    announcement.runs = runner.started;
    announcement.waited = runner.waits;
    announcement.uid = static_cast<std::uint32_t>(jobs_[index_of(id)].user);
    bool starts = false;
    with_shell([&] {
        limit_user(id);
        if (at(id).suspended) shell_->hold(job_of(id), true);
        starts = shell_->announce(announcement);
    });
    runner.waits = !starts;
    if (starts) start_job(id);
}

/// There is room for the job's process. The runner may hear this twice, if the service was restarted in between.
void Simulation::start_job(ClientId id) {
    SimulatedRunner& runner = runner_of(id);
    runner.waits = false;
    if (runner.gone || std::exchange(runner.started, true)) return;
    schedule(Pending::Kind::kArrive, id, draw(options_.answer_delay_max));
}

/// The runner ends. The service sees its connection closed some time later.
void Simulation::end_runner(ClientId id) {
    if (!options_.announces || std::exchange(runner_of(id).gone, true)) return;
    schedule(Pending::Kind::kRunnerGone, id, draw(options_.notice_delay_max));
}

/// A process that the runner has started goes on without it.
void Simulation::kill_runner(ClientId id) {
    const bool waits = at(id).phase == Phase::kAnnounced && !runner_of(id).started;
    if (waits) finish(id, Outcome::kKilled);
    else if (at(id).phase != Phase::kNotArrived) end_runner(id);
}

void Simulation::runner_is_gone(ClientId id) {
    if (!shell_ || !std::exchange(runner_of(id).connected, false)) return;
    without_runner_.push_back(id);
    with_shell([] {});
}

/// As the server does: a job ends when its runner and its clients are gone.
void Simulation::withdraw_ended_jobs() {
    std::erase_if(without_runner_, [&](ClientId id) {
        const bool ended = !shell_->find(id);
        if (ended) shell_->withdraw(job_of(id));
        return ended;
    });
}

void Simulation::lose_service_of_runners() {
    without_runner_.clear();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (!std::exchange(runner_of(ClientId(i)).connected, false)) continue;
        schedule(Pending::Kind::kAnnounce, ClientId(i), draw(options_.notice_delay_max));
    }
}

}  // namespace salus::sim
