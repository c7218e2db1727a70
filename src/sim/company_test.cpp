// Overlap by measurement in the whole system: the service's shell and engine, over a device that works in slices.
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "policies/table.h"
#include "sim/simulation.h"
#include "sim/trace_recorder.h"

namespace salus::sim {
namespace {

/// An iteration is launched in the host time, and keeps the device busy for the device time.
SimulatedJob job(Duration host, Duration device) {
    SimulatedJob job;
    job.iterations = 1'000'000;
    job.iteration_time = std::max(host, device);
    job.host_time = host;
    job.device_time = device;
    job.persistent = mebibytes(100);
    job.ephemeral = mebibytes(200);
    return job;
}
SimulatedJob launch_bound() { return job(milliseconds(8), microseconds(400)); }
SimulatedJob fills_device() { return job(milliseconds(2), milliseconds(30)); }

SimulationOptions options_of(bool overlap, Duration lasts) {
    SimulationOptions options;
    options.engine.capacity = gibibytes(16);
    options.engine.overlap = overlap;
    options.engine.strict = true;
    options.slice = milliseconds(2);
    options.profiles_known = true;
    options.lasts = lasts;
    return options;
}

/// Seconds of work done a second, in which a job alone does one.
double speed_of(const std::vector<SimulatedJob>& jobs, const SimulationOptions& options, std::string_view policy = "fair") {
    Simulation simulation(options, jobs, *find_policy(policy), fallback_policy());
    const SimulationResult result = simulation.run();
    double work_s = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i)
        work_s += static_cast<double>(result.jobs[i].iterations) * jobs[i].iteration_time.seconds();
    return work_s / options.lasts.seconds();
}

/// How many times as fast the jobs are as in exclusive turns.
double gain_of(const std::vector<SimulatedJob>& jobs, Duration lasts, std::string_view policy = "fair") {
    return speed_of(jobs, options_of(true, lasts), policy) / speed_of(jobs, options_of(false, lasts), policy);
}

TEST(Companies, JobsThatAreBoundByTheirLaunchesRunAtOnce) {
    EXPECT_GE(gain_of(std::vector(8, launch_bound()), seconds(60)), 1.2);
}

TEST(Companies, ProgramsWithoutAnAdaptorDoToo) {
    std::vector<SimulatedJob> jobs(4, launch_bound());
    for (SimulatedJob& job : jobs) job.launches = 100;
    jobs.push_back(launch_bound());
    EXPECT_GE(gain_of(jobs, seconds(40)), 1.2);
}

TEST(Companies, JobsThatFillTheDeviceLoseLittleByTrials) {
    EXPECT_GE(gain_of(std::vector(8, fills_device()), seconds(60)), 0.98);
}

TEST(Companies, TrialsCostAHundredthInTheFirstMinute) {
    for (const std::size_t count : {2u, 8u, 12u}) {
        EXPECT_GE(gain_of(std::vector(count, fills_device()), seconds(60)), 0.985) << count;
    }
}

TEST(Companies, AMixGainsAndLosesNothing) {
    std::vector<SimulatedJob> jobs(4, launch_bound());
    jobs.insert(jobs.end(), 4, fills_device());
    EXPECT_GE(gain_of(jobs, seconds(60)), 0.98);
}

TEST(Companies, EveryPolicyThatIsNotExclusiveUsesThem) {
    for (const char* policy : {"srtf", "las", "rr", "priority", "pack"}) {
        EXPECT_GE(gain_of(std::vector(3, launch_bound()), seconds(30), policy), 1.2) << policy;
    }
    EXPECT_EQ(gain_of(std::vector(3, launch_bound()), seconds(10), "fifo"), 1);
}

TEST(Companies, OneLaneMeansOneAtATime) {
    SimulationOptions options = options_of(true, seconds(10));
    options.engine.lanes_max = 1;
    EXPECT_LE(speed_of(std::vector(3, launch_bound()), options), 1.01);
}

TEST(Companies, OthersAreNoWorseOffThanInTurns) {
    std::vector<SimulatedJob> jobs(3, launch_bound());
    jobs.push_back(fills_device());
    const auto iterations = [&](bool overlap) {
        Simulation simulation(options_of(overlap, seconds(60)), jobs, *find_policy("fair"), fallback_policy());
        return static_cast<double>(simulation.run().jobs.back().iterations);
    };
    EXPECT_GE(iterations(true), 0.95 * iterations(false));
}

/// Follows whether clients run at once by decision, when that changes, and when the pace of one first does.
struct CompanyWatch : Observer {
    explicit CompanyWatch(std::uint64_t from = 0) : paced_from(from) {}
    void after_event(const Event&, Instant now, std::span<const Action>, const Simulation& s) override {
        const bool is = !s.engine().overlap().companies().empty();
        if (is != (changes.size() % 2 == 1)) changes.push_back(now);
    }
    void ran(const Segment& iteration) override {
        if (++iterations[iteration.client] == paced_from && !paced_at) paced_at = iteration.end;
    }
    std::vector<Instant> changes;
    std::uint64_t paced_from;
    std::map<ClientId, std::uint64_t> iterations;
    std::optional<Instant> paced_at;
};

TEST(Companies, ABenefitThatChangesIsNoticedWithinTenSeconds) {
    const struct {
        SimulatedJob before, after;
        bool together;  ///< at first
        std::uint64_t from;
    } rows[] = {{launch_bound(), fills_device(), true, 2500}, {fills_device(), launch_bound(), false, 300}};
    for (const auto& row : rows) {
        SimulatedJob changing = row.before;
        changing.paces.push_back({row.from, *row.after.host_time, *row.after.device_time});
        const std::vector jobs(2, changing);
        Simulation simulation(options_of(true, seconds(60)), jobs, *find_policy("fair"), fallback_policy());
        CompanyWatch watch(row.from);
        simulation.observe(watch);
        static_cast<void>(simulation.run());
        ASSERT_TRUE(watch.paced_at);
        std::size_t before = 0;
        std::optional<Instant> first_after;
        for (const Instant change : watch.changes) {
            if (change <= *watch.paced_at) ++before;
            else if (!first_after) first_after = change;
        }
        EXPECT_EQ(before, row.together ? 1u : 0u);
        ASSERT_TRUE(first_after) << "from " << row.from;
        EXPECT_LE((*first_after - *watch.paced_at).seconds(), 10) << "from " << row.from;
    }
}

TEST(Companies, WhatEarlierRunsHaveShownSavesTheTrials) {
    const std::vector jobs(2, launch_bound());
    for (const bool recalls : {false, true}) {
        SimulationOptions options = options_of(true, seconds(6));
        if (recalls) options.recalled = {{ClientId{0}, ClientId{1}, 1.9}};
        Simulation simulation(options, jobs, *find_policy("fair"), fallback_policy());
        CompanyWatch watch;
        simulation.observe(watch);
        static_cast<void>(simulation.run());
        EXPECT_FALSE(watch.changes.empty()) << recalls;
        EXPECT_EQ(simulation.engine().overlap().trials() == 0, recalls);
    }
}

TEST(Companies, LanesAreGivenUpForWhoeverWaitsForMemory) {
    std::vector<SimulatedJob> jobs(4, launch_bound());
    SimulationOptions options = options_of(true, seconds(40));
    options.engine.paging = false;
    options.engine.capacity = mebibytes(4 * 100 + 4 * 200);
    SimulatedJob late = launch_bound();
    late.arrival = seconds(30);
    late.persistent = mebibytes(500);
    jobs.push_back(late);
    Simulation simulation(options, jobs, *find_policy("fair"), fallback_policy());
    CompanyWatch watch;
    simulation.observe(watch);
    const SimulationResult result = simulation.run();
    EXPECT_FALSE(watch.changes.empty()) << "nobody ran at once before";
    EXPECT_GT(result.jobs.back().iterations, 0u);
    EXPECT_LE((result.jobs.back().first_run - result.jobs.back().arrival).seconds(), 1);
}

/// How many lanes there are, as trials come and go.
struct LaneWatch : Observer {
    void after_event(const Event&, Instant now, std::span<const Action>, const Simulation& s) override {
        const std::size_t lanes = s.engine().lanes().all().size();
        most = std::max(most, lanes);
        if (lanes > 1) with_several += now - last;
        last = now;
    }
    std::size_t most = 0;
    Duration with_several;
    Instant last;
};

TEST(Companies, LanesThatOnlyTrialsNeedCloseAgain) {
    const std::vector jobs(4, fills_device());
    Simulation simulation(options_of(true, minutes(10)), jobs, *find_policy("fair"), fallback_policy());
    LaneWatch watch;
    simulation.observe(watch);
    static_cast<void>(simulation.run());
    EXPECT_GT(watch.most, 1u);
    EXPECT_LT(watch.with_several.seconds(), 450);
    EXPECT_TRUE(simulation.engine().overlap().companies().empty());
}

TEST(Companies, ATraceWithThemReplays) {
    const std::vector jobs(4, launch_bound());
    Simulation simulation(options_of(true, seconds(20)), jobs, *find_policy("fair"), fallback_policy());
    TraceRecorder recorder;
    simulation.observe(recorder);
    static_cast<void>(simulation.run());
    EXPECT_GT(simulation.engine().overlap().trials(), 0u);
    const Result<Replay> replay = replay_trace(recorder.text(), find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
}

}  // namespace
}  // namespace salus::sim
