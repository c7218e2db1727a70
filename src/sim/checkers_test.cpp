#include "sim/checkers.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "policies/table.h"

namespace salus::sim {
namespace {

class CheckersTest : public testing::Test {
protected:
    ~CheckersTest() override { set_check_handler(old_); }

private:
    CheckHandler old_ = set_check_handler(throw_check_failure);
};

/// Notes the time of the grant, and of the event after it.
struct AfterGrant : Observer {
    void after_event(const Event&, Instant now, std::span<const Action> actions, const Simulation&) override {
        if (granted != kNever && next == kNever) next = now;
        for (const Action& action : actions) {
            if (std::holds_alternative<action::Grant>(action)) granted = now;
        }
    }
    Instant granted = kNever;
    Instant next = kNever;
};

// Nobody else waits, so the service does not look whether the process is stopped: it hears of no Stop and no Continue.
TEST_F(CheckersTest, AStopThatTheServiceDoesNotHearOfExcusesAWait) {
    SimulatedJob job;
    job.persistent = mebibytes(100);
    job.stated_share = 0.5;  // so it asks for memory as soon as it continues
    const std::vector<SimulatedJob> jobs{job};

    SimulationOptions options;
    options.engine.capacity = gibibytes(1);
    options.profiles_known = true;
    options.tells_usage = true;  // the service looks at the device now and then, whatever happens
    options.notice_delay_max = milliseconds(2);
    using Kind = Disturbance::Kind;
    constexpr std::uint64_t kAttachWantAcknowledge = 3;
    constexpr std::uint64_t kWhenNothingHappens = std::numeric_limits<std::uint64_t>::max();
    options.disturbances.push_back({.at_event = kAttachWantAcknowledge, .kind = Kind::kStop, .client = ClientId{0}});
    for (int i = 0; i < 3; ++i) options.disturbances.push_back({.at_event = kWhenNothingHappens, .kind = Kind::kLaneMemory});
    options.disturbances.push_back({.at_event = kWhenNothingHappens, .kind = Kind::kContinue, .client = ClientId{0}});

    Simulation simulation(options, jobs, *find_policy("fair"), fallback_policy());
    AfterGrant after_grant;
    Checkers checkers;
    simulation.observe(after_grant);
    simulation.observe(checkers);
    SimulationResult result;
    EXPECT_NO_THROW(result = simulation.run());
    EXPECT_TRUE(result.finished);
    EXPECT_GT(after_grant.next - after_grant.granted, seconds(70)) << "the stop is not one that the service overlooks";
}

}  // namespace
}  // namespace salus::sim
