// Which clients run, and how fast: legs of several iterations on a device whose speed they share.
#include <algorithm>
#include <cmath>

#include "sim/simulation.h"

namespace salus::sim {

double Simulation::occupancy(ClientId id) const { return options_.occupancy.value_or(jobs_[index_of(id)].occupancy); }

void Simulation::run_leg(ClientId id, Duration overhead) {
    const SimulatedJob& job = jobs_[index_of(id)];
    SimulatedClient& c = at(id);
    c.leg = job.iterations - c.iterations;
    if (c.growths < job.growth.size()) c.leg = std::min(c.leg, job.growth[c.growths].from - c.iterations);
    const bool one_by_one = job.think.ns > 0 || job.requests_per_s > 0 || !job.quantiles.empty();
    if (one_by_one || sliced_ || options_.lasts.ns > 0 || c.word().yield) c.leg = 1;
    c.phase = Phase::kRunning;
    c.published = 0;
    c.iteration_time = draw_iteration_time(job);
    if (sliced_) {  // which counts the change to this client itself
        Duration host = job.quantiles.empty() ? job.host_time.value_or(job.iteration_time) : c.iteration_time;
        Duration device = job.device_time.value_or(job.iteration_time);
        for (const Pace& pace : job.paces) {
            if (pace.from > c.iterations) break;
            host = pace.host_time;
            device = pace.device_time;
        }
        c.on_device = {.host_ns = static_cast<double>(host.ns), .not_launched_ns = static_cast<double>(device.ns)};
    }
    c.work_ns = -static_cast<double>(overhead.ns);
    JobResult& result = result_.jobs[index_of(id)];
    if (result.first_run == kNever) result.first_run = now();
    resume_running(id);
}

/// The quantile at a place drawn at random.
Duration Simulation::draw_iteration_time(const SimulatedJob& job) {
    if (job.quantiles.empty()) return job.iteration_time;
    const double place = random_.uniform() * static_cast<double>(job.quantiles.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const Duration low = job.quantiles[below];
    const Duration high = job.quantiles[std::min(below + 1, job.quantiles.size() - 1)];
    return low + seconds_of((high - low).seconds() * (place - static_cast<double>(below)));
}

/// The client has to stop at the end of its current iteration.
void Simulation::cut_leg(ClientId id) {
    update_rates();
    SimulatedClient& c = at(id);
    const double begun = std::ceil(c.work_ns / static_cast<double>(c.iteration_time.ns) - 1e-6);
    c.leg = std::min(c.leg, begun < 1 ? 1 : static_cast<std::uint64_t>(begun));
    c.leg = std::max(c.leg, c.published);
    update_rates();
}

void Simulation::resume_running(ClientId id) {
    update_rates();
    at(id).segment_start = now();
    runners_.push_back(id);
    if (sliced_) sliced_->put(id, at(id).on_device);
    update_rates();
}

void Simulation::stop_running(ClientId id) {
    update_rates();
    SimulatedClient& c = at(id);
    runners_.erase(std::find(runners_.begin(), runners_.end(), id));
    if (sliced_) c.on_device = sliced_->take(id);
    update_rates();
    c.ran += now() - c.segment_start;
    for (Observer* observer : observers_) observer->ran({id, c.lane, c.segment_start, now()});
}

/// Updates the work of all running clients to now, and their speed and finish to who runs.
void Simulation::update_rates() {
    if (sliced_) return look_at_slices();
    double demand = 0;
    for (ClientId id : runners_) demand += client(id).gated ? 0 : occupancy(id);
    const double rate = demand > 1.0 ? 1.0 / demand : 1.0;
    const double elapsed_ns = static_cast<double>((now() - rates_at_).ns);
    if (!runners_.empty()) result_.busy += now() - rates_at_;
    rates_at_ = now();
    for (ClientId id : runners_) {
        SimulatedClient& c = at(id);
        c.work_ns += elapsed_ns * c.rate;
        c.rate = c.gated ? 0 : rate;
        const double left_ns = static_cast<double>(c.leg) * static_cast<double>(c.iteration_time.ns) - c.work_ns;
        c.finish =
            c.gated ? kNever : now() + nanoseconds(static_cast<std::int64_t>(std::ceil(std::max(left_ns, 0.0) / rate)));
    }
}

/// The same where the device works in slices: it knows itself how far it is, and here it hears of gates.
void Simulation::look_at_slices() {
    if (!runners_.empty()) result_.busy += now() - rates_at_;
    rates_at_ = now();
    sliced_->advance(now());
    for (ClientId id : runners_) {
        SimulatedClient& c = at(id);
        sliced_->hold(id, c.gated);
        c.finish = sliced_->is_done(id) ? now() : kNever;
    }
}

Instant Simulation::next_finish() const {
    Instant first = kNever;
    for (ClientId id : runners_) first = std::min(first, client(id).finish);
    return first;
}

/// Counts the iterations of a leg that are complete by now on the client's page.
void Simulation::publish_iterations() {
    for (ClientId id : runners_) {
        SimulatedClient& c = at(id);
        const double work_ns = c.work_ns + static_cast<double>((now() - rates_at_).ns) * c.rate;
        const double done = work_ns / static_cast<double>(c.iteration_time.ns) + 1e-6;
        if (done < static_cast<double>(c.published + 1) || c.published + 1 >= c.leg) continue;
        const std::uint64_t completed = std::min(static_cast<std::uint64_t>(done), c.leg - 1);
        publish(id, completed - c.published);
        c.page->begun_ns = static_cast<std::uint64_t>(now().ns);
        c.published = completed;
    }
}

/// So many more iterations are on the client's page.
void Simulation::publish(ClientId id, std::uint64_t iterations) {
    const std::uint64_t launches = jobs_[index_of(id)].launches;
    SimulatedClient& c = at(id);
    c.page->launches += launches * iterations;
    c.turn.finish(static_cast<std::uint64_t>(now().ns), launches > 0 ? 0 : iterations);
}

}  // namespace salus::sim
