#include "sim/forecast.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/table.h"
#include "sim/simulation.h"

namespace salus::sim {
namespace {

SimulatedJob job(const char* name, double arrival_s, std::uint64_t iterations, Duration iteration_time) {
    SimulatedJob made;
    made.name = name;
    made.arrival = seconds_of(arrival_s);
    made.iterations = iterations;
    made.iteration_time = iteration_time;
    made.persistent = mebibytes(300);
    made.ephemeral = mebibytes(2000);
    return made;
}

/// They differ in all that policies look at.
std::vector<SimulatedJob> mix() {
    std::vector<SimulatedJob> jobs = {
        job("long", 1, 3000, milliseconds(100)),  job("short", 2, 400, milliseconds(50)),
        job("late", 25, 500, milliseconds(120)),  job("heavy", 4, 900, milliseconds(200)),
        job("urgent", 6, 600, milliseconds(100)), job("pauses", 0, 500, milliseconds(80)),
    };
    jobs[3].weight = 2;
    jobs[4].priority = 1;
    jobs[5].think = milliseconds(40);
    return jobs;
}

SimulationOptions options() {
    SimulationOptions options;
    options.engine.capacity = gibibytes(16);
    options.engine.review_every = milliseconds(100);
    options.switch_cost = {};
    options.map_us_per_mib = 0;
    options.profiles_known = true;
    return options;
}

/// What the service would say about a simulation.
Status status_of(const Simulation& simulation) {
    const Engine& engine = simulation.engine();
    Status status;
    ServiceStatus& service = status.service;
    service.policy = engine.policy().info.name;
    service.paging = engine.options().paging;
    service.min_turn = engine.options().min_turn;
    service.page_bytes_per_s = engine.options().page_bytes_per_s;
    service.capacity = engine.capacity();
    for (const Client* client : engine.clients()) {
        const ClientFacts& facts = client->facts;
        JobStatus& row = status.jobs.emplace_back();
        row.job = static_cast<std::uint32_t>(index_of(facts.id)) + 1;
        row.client = facts.id;
        row.name = simulation.jobs()[index_of(facts.id)].name;
        row.attached = simulation.now() - (Instant{} + simulation.jobs()[index_of(facts.id)].arrival);
        row.state = client->holds() ? JobState::kRunning : JobState::kWaiting;
        Activity& activity = row.activity.emplace();
        const ControlPage& page = *simulation.client(facts.id).page;
        activity.iterations = page.iterations;
        activity.busy = nanoseconds(static_cast<std::int64_t>(page.busy_ns.load()));
        if (facts.iterations_total > 0) activity.length = {facts.iterations_total};
        activity.attained = facts.attained;
        activity.iteration_time = facts.iteration_time;
        activity.idle = facts.idle;
        activity.persistent = facts.persistent;
        activity.ephemeral = facts.ephemeral;
        activity.priority = facts.priority;
        activity.weight = facts.weight;
        activity.occupancy = facts.occupancy;
        activity.pageable = client->pageable;
    }
    return status;
}

/// Looks at a simulation once, at the first call after a time.
struct Onlooker : Observer {
    explicit Onlooker(double at_s) : at(Instant{} + seconds_of(at_s)) {}
    void after_event(const Event&, Instant, std::span<const Action>, const Simulation&) override { ++events; }
    void after_call(const Simulation& simulation) override {
        if (seen || simulation.now() < at) return;
        seen = status_of(simulation);
        seen_at = simulation.now();
        events_then = events;
    }
    Instant at;
    std::optional<Status> seen;
    Instant seen_at;
    std::uint64_t events = 0;
    std::uint64_t events_then = 0;
};

const Policy& policy_called(std::string_view name) { return *find_policy(name); }

const Forecast::Job& in(const Forecast& forecast, std::uint32_t number) {
    for (const Forecast::Job& job : forecast.jobs) {
        if (job.job == number) return job;
    }
    ADD_FAILURE() << "no job " << number;
    return forecast.jobs.front();
}

Forecast forecast_of(const Status& status, std::string_view policy) {
    const Policy* const wanted[] = {&policy_called(policy)};
    return forecast(status, wanted);
}

class ForecastUnder : public testing::TestWithParam<const Policy*> {};
INSTANTIATE_TEST_SUITE_P(Policies, ForecastUnder, testing::ValuesIn(all_policies().begin(), all_policies().end()),
                         [](const auto& row) { return std::string(row.param->info.name); });

/// The lanes that pack opens depend on who came when, and a forecast opens them anew.
double tolerance(const Policy& policy) { return policy.info.name == "pack" ? 0.1 : 0.02; }

/// Runs the mix under a policy that changes to `to` after 30 s, and compares what the forecast said then with what happened.
void compare(const Policy& from, const Policy& to) {
    const std::vector<SimulatedJob> jobs = mix();
    Onlooker first(30);
    Simulation to_look(options(), jobs, from, fallback_policy());
    to_look.observe(first);
    to_look.run();
    ASSERT_TRUE(first.seen);
    SimulationOptions changing = options();
    Disturbance change;
    change.kind = Disturbance::Kind::kPolicy;
    change.at_event = first.events_then;
    change.policy = &to;
    changing.disturbances = {change};
    const SimulationResult result = Simulation(changing, jobs, from, fallback_policy()).run();

    const Forecast forecast = forecast_of(*first.seen, to.info.name);
    double sum_s = 0;
    for (const Forecast::Job& row : forecast.jobs) {
        ASSERT_TRUE(row.left[0]) << row.name;
        const double real_s = (result.jobs[row.job - 1].end - first.seen_at).seconds();
        sum_s += real_s;
        EXPECT_NEAR(row.left[0]->seconds(), real_s, 0.5 + tolerance(to) * real_s) << row.name;
    }
    ASSERT_TRUE(forecast.policies[0].mean);
    const double mean_s = sum_s / static_cast<double>(forecast.jobs.size());
    EXPECT_NEAR(forecast.policies[0].mean->seconds(), mean_s, tolerance(to) / 2 * mean_s);
}

TEST_P(ForecastUnder, SaysWhatThenHappens) { compare(*GetParam(), *GetParam()); }
TEST_P(ForecastUnder, SaysWhatHappensIfThePolicyChanges) { compare(policy_called("fair"), *GetParam()); }

// ------------------------------------------------------------------------------------------------------- by hand

Status two_jobs() {
    Status status;
    status.service.policy = "fair";
    status.service.min_turn = milliseconds(10);
    status.service.capacity = gibibytes(16);
    status.service.page_bytes_per_s = 12e9;
    for (const std::uint32_t number : {1u, 2u}) {
        JobStatus& row = status.jobs.emplace_back();
        row.job = number;
        row.client = ClientId{number};
        row.state = JobState::kRunning;
        row.attached = seconds(100 - number);
        Activity& activity = row.activity.emplace();
        activity.iterations = 100;
        activity.length = {200};
        activity.iteration_time = milliseconds(100);
        activity.attained = seconds(10);
        activity.persistent = activity.ephemeral = gibibytes(1);
    }
    return status;
}

TEST(Forecast, OfTwoJobsIsTheSumOfWhatIsLeft) {
    const Forecast fifo = forecast_of(two_jobs(), "fifo");
    EXPECT_NEAR(in(fifo, 1).left[0]->seconds(), 10, 0.1);
    EXPECT_NEAR(in(fifo, 2).left[0]->seconds(), 20, 0.1);
    EXPECT_NEAR(fifo.policies[0].mean->seconds(), 15, 0.1);
    EXPECT_NEAR(fifo.policies[0].last->seconds(), 20, 0.1);
    const Forecast fair = forecast_of(two_jobs(), "fair");
    EXPECT_NEAR(in(fair, 1).left[0]->seconds(), 20, 0.3);
    EXPECT_NEAR(in(fair, 2).left[0]->seconds(), 20, 0.3);
}

TEST(Forecast, UnderLasTheOneThatHasRunLessGoesFirst) {
    Status status = two_jobs();
    status.jobs[1].activity->attained = seconds(3);
    const Forecast las = forecast_of(status, "las");
    EXPECT_NEAR(in(las, 2).left[0]->seconds(), 13, 0.3) << "7 s alone, then in turns";
    EXPECT_NEAR(in(las, 1).left[0]->seconds(), 20, 0.3);
}

TEST(Forecast, AJobOfUnknownLengthRunsOn) {
    Status status = two_jobs();
    status.jobs[0].activity->length.reset();
    const Forecast fair = forecast_of(status, "fair");
    EXPECT_EQ(in(fair, 1).outlook, Outlook::kRunsOn);
    EXPECT_FALSE(in(fair, 1).left[0]);
    EXPECT_NEAR(in(fair, 2).left[0]->seconds(), 20, 0.3) << "it has half of the device";
    EXPECT_NEAR(fair.policies[0].mean->seconds(), 20, 0.3) << "of those that have a length";
    const Forecast fifo = forecast_of(status, "fifo");
    EXPECT_FALSE(in(fifo, 2).left[0]) << "the first one keeps it from running";
    EXPECT_FALSE(fifo.policies[0].mean);
    EXPECT_TRUE(forecast_of(two_jobs(), "fifo").policies[0].mean);
}

TEST(Forecast, TheFirstIterationsSayNothing) {
    Status status = two_jobs();
    Activity& first = *status.jobs[0].activity;
    first.iterations = 9;
    first.iteration_time = {};
    first.busy = first.attained = seconds(9);
    EXPECT_EQ(in(forecast_of(status, "fifo"), 1).outlook, Outlook::kNew);
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 2).left[0]->seconds(), 10, 0.1);
    first.iteration_time = milliseconds(50);  // as stated, or as an earlier run has shown
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 9.55, 0.1);
    first.iteration_time = {};
    first.iterations = 100;
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 9, 0.1) << "by its own count";
}

TEST(Forecast, WhatIsExpectedIsAsFarOffAsForTheOthers) {
    Status status = two_jobs();
    status.service.pace = {1.2, seconds(1)};
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 10, 0.1) << "it is measured";
    Activity& first = *status.jobs[0].activity;
    first.iteration_time_expected = true;
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 12, 0.1);
    first.iterations = 4;  // the first ones took long, and came late
    first.length = {104};
    first.busy = first.idle = seconds(4);
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 12, 0.1);
    EXPECT_NEAR(in(forecast_of(status, "fifo"), 2).left[0]->seconds(), 22, 0.2) << "the first one comes before it";
    for (const double pace : {0.0, -1.0, 1e9}) {
        status.service.pace = {pace, seconds(1)};
        EXPECT_NEAR(in(forecast_of(status, "fifo"), 1).left[0]->seconds(), 10, 0.1) << pace;
    }
}

TEST(Forecast, AJobThatOutranItsEstimateHasNoLength) {
    Status status = two_jobs();
    status.jobs[0].activity->length = {90, /*is_past=*/true};
    status.jobs[1].activity->length = {150, /*is_past=*/true};
    const Forecast fair = forecast_of(status, "fair");
    EXPECT_EQ(in(fair, 1).outlook, Outlook::kRunsOn);
    EXPECT_EQ(in(fair, 2).outlook, Outlook::kPast);
}

TEST(Forecast, AJobThatWaitsToStartIsAsLongAsAnEarlierRun) {
    Status status = two_jobs();
    JobStatus& waiting = status.jobs.emplace_back();
    waiting.job = 3;
    waiting.state = JobState::kWaiting;
    waiting.past = RunFigures{50, milliseconds(200), gibibytes(1), gibibytes(1)};
    const Forecast fifo = forecast_of(status, "fifo");
    EXPECT_EQ(in(fifo, 3).outlook, Outlook::kPast);
    EXPECT_NEAR(in(fifo, 3).left[0]->seconds(), 30, 0.1);
    status.jobs.back().past.reset();
    EXPECT_EQ(in(forecast_of(status, "fifo"), 3).outlook, Outlook::kNew);
}

TEST(Forecast, AJobThatTakesNoTurnsIsLeftOutButKeepsItsMemory) {
    Status status = two_jobs();
    status.jobs[0].state = JobState::kPaused;
    Forecast fair = forecast_of(status, "fair");
    EXPECT_EQ(in(fair, 1).outlook, Outlook::kAside);
    EXPECT_NEAR(in(fair, 2).left[0]->seconds(), 10, 0.1);
    status.jobs[0].activity->persistent = gibibytes(15);  // and cannot be paged
    EXPECT_FALSE(in(forecast_of(status, "fair"), 2).left[0]);
    status.service.paging = true;
    EXPECT_TRUE(in(forecast_of(status, "fair"), 2).left[0]);
}

TEST(Forecast, AJobWithSeveralClientsEndsWithItsLast) {
    Status status = two_jobs();
    status.jobs[1].job = 1;
    status.jobs[1].activity->length = {150};
    Forecast fifo = forecast_of(status, "fifo");
    ASSERT_EQ(fifo.jobs.size(), 1u);
    EXPECT_NEAR(fifo.jobs[0].left[0]->seconds(), 15, 0.1);
    status.jobs[1].activity->length.reset();
    fifo = forecast_of(status, "fifo");
    EXPECT_FALSE(fifo.jobs[0].left[0]);
}

TEST(Forecast, OfMonthsIsNotMuchCoarserThanOfMinutes) {
    Status status = two_jobs();
    for (JobStatus& row : status.jobs) row.activity->length = {100 + 10'000'000};  // 11.6 days
    status.jobs[1].activity->idle = seconds(5);
    const Forecast fair = forecast_of(status, "fair");
    const double day_s = 86'400;
    EXPECT_NEAR(in(fair, 1).left[0]->seconds() / day_s, 2 * 11.574, 0.4);
    EXPECT_NEAR(in(fair, 2).left[0]->seconds() / day_s, 2 * 11.574, 0.4);
}

TEST(Forecast, TakesWhateverAServiceSays) {
    for (const JobState state : {JobState::kUnknown, JobState::kRunning, JobState::kWaiting, JobState::kRefused}) {
        Status status = two_jobs();
        status.service.capacity = {};
        status.service.min_turn = {};
        for (JobStatus& row : status.jobs) {
            row.state = state;
            row.activity->weight = -1;
            row.activity->occupancy = 7;
            row.activity->length = {~std::uint64_t{0}};
            row.activity->idle = seconds(-5);
        }
        for (const Policy* policy : all_policies()) {
            const Forecast forecast = forecast_of(status, policy->info.name);
            EXPECT_FALSE(forecast.jobs[0].left[0]);
        }
    }
    const Forecast nobody = forecast_of(Status{}, "fair");
    EXPECT_TRUE(nobody.jobs.empty());
    EXPECT_FALSE(nobody.policies[0].mean);
}

}  // namespace
}  // namespace salus::sim
