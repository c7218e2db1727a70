#include "sim/recorded_run.h"

#include <vector>

#include <gtest/gtest.h>

#include "policies/table.h"
#include "sim/trace_recorder.h"

namespace salus::sim {
namespace {

TEST(RecordedRun, TellsHowLongEachJobWaitedAndForWhat) {
    SimulatedJob job;
    job.iterations = 100;
    job.iteration_time = milliseconds(100);
    job.persistent = mebibytes(100);
    job.ephemeral = mebibytes(1000);
    std::vector<SimulatedJob> jobs{job, job, job};
    jobs[2].persistent = gibibytes(15);  // beside the lane it fits only when the others have left
    jobs[2].arrival = seconds(1);
    SimulationOptions options;
    options.engine.capacity = gibibytes(16);
    options.engine.paging = false;
    options.profiles_known = true;
    options.switch_cost = {};
    options.map_us_per_mib = 0;
    Simulation simulation(options, jobs, *find_policy("fair"), fallback_policy());
    TraceRecorder trace;
    simulation.observe(trace);
    const SimulationResult result = simulation.run();
    const auto run = read_recorded_run(trace.text(), find_policy, fallback_policy());
    ASSERT_TRUE(run) << run.error();
    ASSERT_EQ(run.value().waits.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        double waited_s = 0;
        for (const auto& [reason, time] : run.value().waits[i]) waited_s += time.seconds();
        const double there_s = (result.jobs[i].end - result.jobs[i].arrival).seconds();
        EXPECT_NEAR(waited_s, there_s - 10, 0.2) << "all but its 100 iterations";
    }
    const auto turns = run.value().waits[0].find(WaitReason::kTurn);
    ASSERT_NE(turns, run.value().waits[0].end());
    EXPECT_NEAR(turns->second.seconds(), 10, 0.5);
    const auto memory = run.value().waits[2].find(WaitReason::kMemory);
    ASSERT_NE(memory, run.value().waits[2].end());
    EXPECT_NEAR(memory->second.seconds(), 19, 0.5);
}

}  // namespace
}  // namespace salus::sim
