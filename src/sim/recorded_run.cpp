#include "sim/recorded_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/text.h"

namespace salus::sim {
namespace {

class Onlooker : public ReplayObserver {
public:
    explicit Onlooker(RecordedRun& run) : run_(run) {}

    void note(std::string_view line) override {
        const std::size_t name = line.find(" name=");
        if (name == std::string_view::npos) return;
        for (const std::string_view word : split(line.substr(0, name), ' ')) {
            if (word.starts_with("job=")) number_ = parse_integer(word.substr(4)).value_or(0);
        }
        name_ = std::string(line.substr(name + 6));
    }

    void after_event(const Event& event, Instant at, std::span<const Action> actions, const Engine& engine) override {
        now_ = at;
        ++run_.result.events;
        // A client that leaves with this event is still known from the event before.
        if (const auto* e = std::get_if<event::Attach>(&event)) attached(*e);
        if (const auto* e = std::get_if<event::Boundary>(&event)) end_segment(e->client, true);
        if (const auto* e = std::get_if<event::Idle>(&event)) end_segment(e->client, false);
        if (const auto* e = std::get_if<event::Want>(&event)) resume(e->client);
        if (const auto* e = std::get_if<event::Requests>(&event)) requests(e->client, e->in_flight);
        if (const auto* e = std::get_if<event::Leave>(&event)) gone(e->client, Outcome::kDone);
        if (const auto* e = std::get_if<event::Die>(&event)) gone(e->client, Outcome::kKilled);
        for (const Action& action : actions) {
            if (const auto* a = std::get_if<action::Grant>(&action)) granted(*a);
            if (const auto* a = std::get_if<action::Yield>(&action)) here(a->client).asked = true;
            if (const auto* a = std::get_if<action::Revoke>(&action)) here(a->client).asked = true;
        }
        answering_.acted(actions, now_);
        for (const Client* client : engine.clients()) look_at(*client, engine);
        run_.result.statistics = engine.statistics();
        note_memory(engine);
    }

    void finish() {
        for (auto& [client, present] : present_) {
            if (present.running) end_segment(client, true);
            waits(present, WaitReason::kNothing);
        }
        run_.end = now_;
        run_.answering = answering_.until(now_);
        std::vector<std::pair<Instant, std::int64_t>> changes;
        for (std::size_t i = 0; i < run_.jobs.size(); ++i) {
            JobResult& job = run_.result.jobs[i];
            run_.result.iterations += job.iterations;
            run_.result.end = std::max(run_.result.end, job.end == kNever ? now_ : job.end);
            const std::int64_t size = (run_.jobs[i].persistent + run_.jobs[i].ephemeral).count;
            changes.emplace_back(job.arrival, size);
            changes.emplace_back(job.end == kNever ? now_ : job.end, -size);
        }
        std::sort(changes.begin(), changes.end());
        Bytes present;
        for (const auto& [at, change] : changes) {
            present += Bytes{change};
            run_.result.static_peak = std::max(run_.result.static_peak, present);
        }
        // A profiling turn was lent far more than it used. Now we know how much it used.
        for (const auto& [others, job] : profiling_) {
            run_.result.memory_peak =
                std::max(run_.result.memory_peak, others + run_.jobs[job].persistent + run_.jobs[job].ephemeral);
        }
        run_.result.busy = busy_time();
        run_.result.finished = std::all_of(run_.result.jobs.begin(), run_.result.jobs.end(),
                                           [](const JobResult& job) { return job.outcome != Outcome::kUnfinished; });
    }

private:
    struct Present {
        std::size_t index = 0;  ///< in jobs
        bool running = false;
        bool asked = false;  ///< it was asked to give its grant back
        bool holds = false;
        LaneId lane = kNoLane;
        Instant since;
        WaitReason waits_for = WaitReason::kNothing;
        Instant waits_since;
    };

    Present& here(ClientId client) { return present_[client]; }

    void attached(const event::Attach& e) {
        Present present;
        present.index = run_.jobs.size();
        present_[e.client] = present;
        SimulatedJob job;
        job.name = name_.empty() ? "client " + std::to_string(index_of(e.client)) : name_;
        job.arrival = {now_.ns};
        job.iterations = e.iterations_total;
        job.user = e.user;
        run_.jobs.push_back(job);
        run_.numbers.push_back(static_cast<std::uint32_t>(number_));
        run_.waits.emplace_back();
        JobResult result;
        result.arrival = now_;
        run_.result.jobs.push_back(result);
        name_.clear();
        number_ = 0;
    }

    void granted(const action::Grant& a) {
        Present& client = here(a.client);
        client.running = client.holds = true;
        client.asked = false;
        client.lane = a.lane;
        client.since = now_;
        JobResult& result = run_.result.jobs[client.index];
        result.first_run = std::min(result.first_run, now_);
    }

    void end_segment(ClientId id, bool grant_returned) {
        Present& client = here(id);
        if (client.running) {
            run_.segments.push_back({ClientId{static_cast<std::uint32_t>(client.index)}, client.lane, client.since, now_});
        }
        client.running = false;
        if (grant_returned || client.asked) client.holds = false;
    }

    /// The client had kept its grant while it idled.
    void resume(ClientId id) {
        Present& client = here(id);
        if (!client.holds || client.running) return;
        client.running = true;
        client.since = now_;
    }

    /// From now on it waits for this.
    void waits(Present& client, WaitReason reason) {
        if (client.waits_for != WaitReason::kNothing)
            run_.waits[client.index][client.waits_for] += now_ - client.waits_since;
        client.waits_for = reason;
        client.waits_since = now_;
    }

    void requests(ClientId id, std::uint32_t in_flight) { answering_.requests(here(id).index, in_flight, now_); }

    void gone(ClientId id, Outcome outcome) {
        end_segment(id, true);
        waits(here(id), WaitReason::kNothing);
        requests(id, 0);
        JobResult& result = run_.result.jobs[here(id).index];
        result.end = now_;
        result.outcome = outcome;
        present_.erase(id);
    }

    void look_at(const Client& client, const Engine& engine) {
        Present& present = here(client.facts.id);
        waits(present, engine.why_waits(client).first);  // the trace itself does not tell each wait for a turn
        SimulatedJob& job = run_.jobs[present.index];
        job.persistent = client.facts.persistent;
        job.ephemeral = client.facts.ephemeral;
        job.iteration_time = client.facts.iteration_time;
        JobResult& result = run_.result.jobs[present.index];
        result.iterations = client.facts.iterations_done;
        result.memory_time_gib_s = engine.memory_time_gib_s(client, now_);
    }

    void note_memory(const Engine& engine) {
        const Client* profiler = engine.profiling() == kNoClient ? nullptr : engine.find(engine.profiling());
        if (!profiler || !profiler->holds()) {
            run_.result.memory_peak = std::max(run_.result.memory_peak, engine.reserved());
            return;
        }
        const auto seen = std::pair(engine.reserved() - profiler->reserved(), here(profiler->facts.id).index);
        if (profiling_.empty() || profiling_.back() != seen) profiling_.push_back(seen);
    }

    /// Time with at least one client running.
    Duration busy_time() const {
        std::vector<Segment> ordered = run_.segments;
        std::sort(ordered.begin(), ordered.end(), [](const Segment& a, const Segment& b) { return a.start < b.start; });
        Duration busy;
        Instant covered{};
        for (const Segment& segment : ordered) {
            const Instant from = std::max(segment.start, covered);
            if (segment.end > from) busy += segment.end - from;
            covered = std::max(covered, segment.end);
        }
        return busy;
    }

    RecordedRun& run_;
    std::map<ClientId, Present> present_;
    AnsweringRecorder answering_;
    std::vector<std::pair<Bytes, std::size_t>> profiling_;  ///< for each profiling turn: reserved by all others, its job
    Instant now_{};
    std::string name_;
    std::int64_t number_ = 0;
};

}  // namespace

Result<RecordedRun> read_recorded_run(std::string_view trace, PolicyFinder find_policy, const Policy& fallback) {
    RecordedRun run;
    Onlooker onlooker(run);
    Result<Replay> replay = replay_trace(trace, find_policy, fallback, &onlooker);
    if (!replay) return Error{replay.error()};
    run.replay = std::move(replay).value();
    onlooker.finish();
    return run;
}

}  // namespace salus::sim
