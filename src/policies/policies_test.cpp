// What each policy promises, as tables of facts; then what every policy must do, run over all of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "core/engine_fixture.h"
#include "core/policy.h"
#include "policies/table.h"
#include "sim/simulation.h"
#include "sim/timeline.h"
#include "sim/workloads.h"

namespace salus {
namespace {

constexpr Situation kNow{Instant{3'600'000'000'000}, minutes(1)};

ClientFacts facts(std::uint32_t id) {
    ClientFacts f;
    f.id = ClientId{id};
    f.sequence = id;
    return f;
}

// ----------------------------------------------------------------------------------------------------------- the orders

/// What sets a client apart from one that just came.
struct Traits {
    std::uint32_t user = 0;
    double user_time_s = 0;  ///< if time is shared by user
    int priority = 0;
    double weight = 1.0;
    double attained_s = 0;
    double last_ran_s = -1;
    std::uint64_t iterations_done = 0;
    std::uint64_t iterations_total = 0;
    double iteration_s = 0;
};

struct OrderRow {
    std::string_view policy;
    std::string_view what;
    std::vector<Traits> clients;  ///< A, B, C ... in order of attachment
    std::string_view order;
};

void PrintTo(const OrderRow& row, std::ostream* out) { *out << row.policy << ": " << row.what; }

const OrderRow kOrders[] = {
    {"fifo", "arrival, whatever else", {{.attained_s = 9}, {.priority = 5}, {.iterations_total = 1}}, "ABC"},
    {"pack", "arrival, whatever else", {{.attained_s = 9}, {.priority = 5}, {.iterations_total = 1}}, "ABC"},

    {"srtf",
     "the shortest first",
     {{.iterations_total = 30, .iteration_s = 1},
      {.iterations_total = 10, .iteration_s = 1},
      {.iterations_total = 2, .iteration_s = 10}},
     "BCA"},
    {"srtf",
     "what remains counts, not what was done",
     {{.iterations_total = 50, .iteration_s = 1},
      {.attained_s = 90, .iterations_done = 90, .iterations_total = 100, .iteration_s = 1}},
     "BA"},
    {"srtf",
     "one of unknown length is taken for a typical job (60 s)",
     {{}, {.iterations_total = 59, .iteration_s = 1}, {.iterations_total = 61, .iteration_s = 1}},
     "BAC"},
    {"srtf",
     "a length without a time for an iteration is unknown, too",
     {{.iterations_total = 1}, {.iterations_total = 59, .iteration_s = 1}},
     "BA"},
    {"srtf",
     "a time for an iteration without a length is unknown, too",
     {{.iteration_s = 0.001}, {.iterations_total = 59, .iteration_s = 1}},
     "BA"},
    {"srtf",
     "one of unknown length that ran for long is expected to run as long again",
     {{.attained_s = 500}, {.iterations_total = 400, .iteration_s = 1}, {.attained_s = 70}},
     "CBA"},
    {"srtf",
     "one that outran its stated length is not done yet: one iteration is left",
     {{.attained_s = 50, .iterations_done = 50, .iterations_total = 10, .iteration_s = 1},
      {.iterations_total = 1, .iteration_s = 0.5}},
     "BA"},

    {"las", "the least attained first", {{.attained_s = 3}, {.attained_s = 1}, {.attained_s = 2}}, "BCA"},
    {"las",
     "lengths and weights do not count",
     {{.attained_s = 2, .iterations_total = 1, .iteration_s = 1}, {.attained_s = 1}},
     "BA"},
    {"las", "a tie goes to who came first", {{.attained_s = 1}, {.attained_s = 1}, {}}, "CAB"},

    {"fair",
     "time held divided by weight",
     {{.weight = 1, .attained_s = 3}, {.weight = 4, .attained_s = 8}, {.weight = 2, .attained_s = 5}},
     "BCA"},
    {"fair", "a tie goes to who came first", {{.weight = 2, .attained_s = 2}, {.weight = 1, .attained_s = 1}}, "AB"},

    {"rr", "who ran longest ago first", {{.last_ran_s = 30}, {.last_ran_s = 10}, {.last_ran_s = 20}}, "BCA"},
    {"rr", "who has not run yet before all others, in order of arrival", {{.last_ran_s = 0}, {}, {}}, "BCA"},
    {"rr", "time held does not count", {{.attained_s = 100, .last_ran_s = 1}, {.attained_s = 1, .last_ran_s = 2}}, "AB"},

    {"priority",
     "the highest priority first, fair among equals",
     {{.attained_s = 2},
      {.attained_s = 1},
      {.priority = 1, .attained_s = 9},
      {.priority = -1},
      {.priority = 1, .weight = 3, .attained_s = 12}},
     "ECBAD"},

    {"fair",
     "the user furthest behind first, then the client of that user",
     {{.user = 1, .user_time_s = 4, .attained_s = 1},
      {.user = 2, .user_time_s = 3, .attained_s = 2},
      {.user = 2, .user_time_s = 3, .weight = 4, .attained_s = 4}},
     "CBA"},
    {"las",
     "the user furthest behind first, then the least attained",
     {{.user = 1, .user_time_s = 4, .attained_s = 1},
      {.user = 2, .user_time_s = 3, .attained_s = 3},
      {.user = 2, .user_time_s = 3, .attained_s = 2}},
     "CBA"},
    {"rr",
     "the user furthest behind first, then who ran longest ago",
     {{.user = 1, .user_time_s = 4, .last_ran_s = 1},
      {.user = 2, .user_time_s = 3, .last_ran_s = 3},
      {.user = 2, .user_time_s = 3, .last_ran_s = 2}},
     "CBA"},
    {"priority",
     "the user furthest behind first, whatever the others' priority",
     {{.user = 1, .user_time_s = 4, .priority = 9},
      {.user = 2, .user_time_s = 3},
      {.user = 2, .user_time_s = 3, .priority = 1}},
     "CBA"},
    {"srtf",
     "users do not count",
     {{.user = 1, .user_time_s = 4, .iterations_total = 1, .iteration_s = 1},
      {.user = 2, .iterations_total = 2, .iteration_s = 1}},
     "AB"},
};

class PolicyOrder : public testing::TestWithParam<OrderRow> {};

TEST_P(PolicyOrder, IsAsPromised) {
    const OrderRow& row = GetParam();
    const Policy& policy = *find_policy(row.policy);
    std::vector<ClientFacts> clients;
    for (const Traits& t : row.clients) {
        ClientFacts& f = clients.emplace_back(facts(static_cast<std::uint32_t>(clients.size())));
        f.user = f.account = UserId{t.user};
        f.user_time_s = t.user_time_s;
        f.priority = t.priority;
        f.weight = t.weight;
        f.attained = seconds_of(t.attained_s);
        f.virtual_time_s = t.attained_s / t.weight;
        f.last_ran = Instant{} + seconds_of(t.last_ran_s);
        f.iterations_done = t.iterations_done;
        f.iterations_total = t.iterations_total;
        f.iteration_time = seconds_of(t.iteration_s);
    }
    std::vector<const ClientFacts*> left;
    for (const ClientFacts& f : clients) left.push_back(&f);
    std::string order;
    while (!left.empty()) {
        const ClientId next = policy.choose(left, kNow);
        for (const ClientFacts* other : left) {
            const ClientFacts& chosen = clients[index_of(next)];
            EXPECT_EQ(precedes(policy.rank(chosen, kNow), chosen, policy.rank(*other, kNow), *other), other->id != next);
        }
        order += letter(next);
        std::erase_if(left, [&](const ClientFacts* f) { return f->id == next; });
    }
    EXPECT_EQ(order, row.order);
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOrder, testing::ValuesIn(kOrders),
                         [](const auto& row) { return std::string(row.param.policy) + std::to_string(row.index); });

TEST(Policies, WhatRemainsOfAJobIsNeverZero) {
    for (const double attained_s : {0.0, 5.0, 1e6}) {
        for (const std::uint64_t total : {0u, 1u, 10u}) {
            for (const double iteration_s : {0.0, 0.001, 1.0}) {
                ClientFacts f = facts(0);
                f.attained = seconds_of(attained_s);
                f.iterations_done = f.iterations_total = total;
                f.iteration_time = seconds_of(iteration_s);
                EXPECT_GT(estimate_remaining_s(f, {kNow.now, nanoseconds(1)}), 0.0)
                    << attained_s << ' ' << total << ' ' << iteration_s;
            }
        }
    }
}

TEST(Policies, OnlyPriorityKnowsUrgency) {
    for (const Policy* policy : all_policies()) {
        SCOPED_TRACE(policy->info.name);
        const bool is_priority = policy->info.name == "priority";
        for (const int waiting : {-1, 0, 1}) {
            for (const int holding : {-1, 0, 1}) {
                ClientFacts waiter = facts(1);
                ClientFacts holder = facts(0);
                waiter.priority = waiting;
                holder.priority = holding;
                holder.attained = seconds(1000);
                holder.virtual_time_s = 1000;
                EXPECT_EQ(policy->urgent(waiter, holder), is_priority && waiting > holding);
                EXPECT_EQ(policy->profiles_before(waiter, holder), !is_priority || waiting >= holding);
                waiter.account = UserId{1};
                EXPECT_FALSE(policy->urgent(waiter, holder)) << "another user's";
                EXPECT_TRUE(policy->profiles_before(waiter, holder)) << "another user's";
            }
        }
    }
}

TEST(Policies, OneMoreLaneIsOpenedWhileThereIsSomethingOfTheDeviceLeft) {
    struct Row {
        double in_use;
        double newcomer;
        bool pack;
        bool others;
    };
    for (const Row& row : {Row{0.0, 1.0, true, true}, Row{0.5, 0.5, true, true}, Row{0.9, 0.5, true, false},
                           Row{1.0, 0.0, false, true}, Row{1.0, 0.5, false, false}, Row{1.5, 0.1, false, false}}) {
        for (const Policy* policy : all_policies()) {
            SCOPED_TRACE(fmt::format("{}: {} + {}", policy->info.name, row.in_use, row.newcomer));
            EXPECT_EQ(policy->opens_lane(row.in_use, row.newcomer), policy->info.name == "pack" ? row.pack : row.others);
        }
    }
    const Policy& fair = *find_policy("fair");
    EXPECT_TRUE(fair.opens_lane(0.1 + 0.2 + 0.3 + 0.1, 0.3)) << "a sum of shares is not exact";
}

TEST(Policies, NamesAreUniqueAndTheFallbackComesFirst) {
    std::set<std::string_view> names;
    for (const Policy* policy : all_policies()) EXPECT_TRUE(names.insert(policy->info.name).second) << policy->info.name;
    EXPECT_GE(names.size(), 7u);
    EXPECT_EQ(all_policies().front(), &fallback_policy());
    EXPECT_EQ(fallback_policy().info.name, "fifo");
    EXPECT_EQ(find_policy("no such policy"), nullptr);
    EXPECT_EQ(find_policy(""), nullptr);
}

// --------------------------------------------------------------------------------------- what every policy has to do

class EveryPolicy : public testing::TestWithParam<const Policy*> {
protected:
    ~EveryPolicy() override { set_check_handler(old_); }

    const Policy& policy = *GetParam();

private:
    CheckHandler old_ = set_check_handler(throw_check_failure);
};

INSTANTIATE_TEST_SUITE_P(Conformance, EveryPolicy, testing::ValuesIn(all_policies().begin(), all_policies().end()),
                         [](const auto& policy) { return std::string(policy.param->info.name); });

TEST_P(EveryPolicy, SaysWhatItIsAndIsFoundByName) {
    EXPECT_FALSE(policy.info.name.empty());
    EXPECT_FALSE(policy.info.good_for.empty());
    EXPECT_FALSE(policy.info.bad_at.empty());
    EXPECT_EQ(find_policy(policy.info.name), &policy);
}

TEST_P(EveryPolicy, RanksAreFiniteForExtremeFacts) {
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();
    for (const std::int64_t time : {std::int64_t{0}, std::int64_t{1}, kHuge}) {
        for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, kMany}) {
            for (const double weight : {1e-300, 1.0, 1e300}) {
                for (const int priority : {std::numeric_limits<int>::min(), 0, std::numeric_limits<int>::max()}) {
                    ClientFacts f = facts(0);
                    f.sequence = count;
                    f.priority = priority;
                    f.weight = weight;
                    f.attained = f.idle = f.iteration_time = {time};
                    f.last_ran = {time == 0 ? -1 : time};
                    f.iterations_done = f.iterations_total = count;
                    f.persistent = f.ephemeral = {time};
                    f.occupancy = time == 0 ? 0.0 : 1.0;
                    for (const Situation& now : {kNow, Situation{}, Situation{{kHuge}, {kHuge}}}) {
                        const Rank rank = policy.rank(f, now);
                        EXPECT_TRUE(std::isfinite(rank.user) && std::isfinite(rank.tier) && std::isfinite(rank.order))
                            << rank.tier << ' ' << rank.order << " at time " << time << " count " << count;
                    }
                }
            }
        }
    }
}

ClientFacts random_facts(Random& random, std::uint32_t id) {
    ClientFacts f = facts(id);
    f.priority = static_cast<int>(random.integer(-1, 1));
    f.weight = random.chance(0.5) ? 1.0 : random.between(0.1, 8.0);
    f.attained = random.chance(0.3) ? Duration{} : seconds(random.integer(0, 20));  // ties are wanted
    f.virtual_time_s = f.attained.seconds() / f.weight;
    if (f.attained.ns > 0) f.last_ran = Instant{} + seconds(random.integer(0, 20));
    f.iterations_total = random.chance(0.4) ? 0 : static_cast<std::uint64_t>(random.integer(1, 20));
    f.iteration_time = random.chance(0.2) ? Duration{} : seconds(random.integer(1, 3));
    return f;
}

TEST_P(EveryPolicy, ChoosesACandidateTheSameOneWhateverTheirOrder) {
    Random random(7);
    for (std::size_t n = 1; n <= 50; ++n) {
        SCOPED_TRACE(n);
        std::vector<ClientFacts> clients;
        for (std::size_t i = 0; i < n; ++i) clients.push_back(random_facts(random, static_cast<std::uint32_t>(3 * i + 1)));
        std::vector<const ClientFacts*> candidates;
        for (const ClientFacts& f : clients) candidates.push_back(&f);
        const ClientId chosen = policy.choose(candidates, kNow);
        const auto is_chosen = [&](const ClientFacts* f) { return f->id == chosen; };
        const auto found = std::find_if(candidates.begin(), candidates.end(), is_chosen);
        ASSERT_NE(found, candidates.end());
        EXPECT_EQ(policy.choose(candidates, kNow), chosen);
        const Rank rank = policy.rank(**found, kNow);
        for (int shuffles = 0; shuffles < 5; ++shuffles) {
            for (std::size_t i = n; i > 1; --i) std::swap(candidates[i - 1], candidates[random.below(i)]);
            const ClientId again = policy.choose(candidates, kNow);
            const auto same =
                std::find_if(candidates.begin(), candidates.end(), [&](const auto* f) { return f->id == again; });
            ASSERT_NE(same, candidates.end());
            EXPECT_EQ(policy.rank(**same, kNow), rank);
        }
    }
}

// --------------------------------------------------------------------------------------------------- in a small engine

EngineOptions small_device(unsigned lanes_max) {
    EngineOptions options;
    options.capacity = mebibytes(4000);
    options.min_turn = milliseconds(10);
    options.lanes_max = lanes_max;
    options.strict = true;
    return options;
}

/// Somebody could run, or somebody idles with a lane (or with one of the few that may run) that others wait for.
std::string unused_chance(const Driver& driver) {
    const unsigned lanes_max = driver.engine.options().lanes_max;
    std::size_t places = lanes_max > 0 ? lanes_max : driver.engine.lanes().all().size();  // free now, or asked for
    std::size_t waiting = 0;                                                              // lanes that need one
    std::string idler;
    for (const Lane& lane : driver.engine.lanes().all()) {
        const Client* holder = lane.holder == kNoClient ? nullptr : &driver.at(lane.holder);
        const bool keeps_it = holder && !holder->yield_asked;
        if (keeps_it) --places;
        else if (!lane.ready.empty()) ++waiting;
        if (!keeps_it || holder->turn() != Turn::kHoldingIdle) continue;
        idler = letter(lane.holder) + " idles with its lane";
        if (!lane.ready.empty()) return idler;
    }
    if (waiting > places && !idler.empty()) return idler;
    const auto held = [](const Lane& lane) { return lane.holder != kNoClient; };
    const std::vector<Lane>& lanes = driver.engine.lanes().all();
    if (lanes_max > 0 && std::count_if(lanes.begin(), lanes.end(), held) >= static_cast<std::ptrdiff_t>(lanes_max))
        return "";
    const auto could_run = [&](const Lane& lane) { return !held(lane) && !lane.ready.empty(); };
    return std::any_of(lanes.begin(), lanes.end(), could_run) ? "somebody could run" : "";
}

/// Clients that think and run at random, for a while: the first chance that was not taken, or "".
std::string first_unused_chance(const Policy& policy, unsigned lanes_max, std::uint32_t users) {
    Random random(lanes_max + 1);
    Driver driver(small_device(lanes_max), policy, fallback_policy());
    std::vector<ClientId> clients;
    for (std::uint32_t i = 0; i < 8; ++i) {
        Newcomer n;
        n.user = 1 + i % users;
        n.priority = static_cast<int>(random.integer(0, 1));
        n.occupancy = random.between(0.2, 1.0);
        n.persistent_mib = random.integer(1, 100);
        n.ephemeral_mib = random.integer(1, 400);
        clients.push_back(driver.attach(n));
    }
    int iterations = 0;
    for (int step = 0; step < 3000; ++step) {
        if (random.chance(0.5)) driver.pass(microseconds(random.integer(0, 5000)));
        const ClientId id = clients[random.below(clients.size())];
        const Client& client = driver.at(id);
        const bool goes_idle = client.turn() == Turn::kRunning && random.chance(0.5);
        const bool is_revoked = client.turn() == Turn::kHoldingIdle && client.yield_asked;
        if (is_revoked) driver.idle(id, 0);
        else if (client.turn() == Turn::kParked || client.turn() == Turn::kHoldingIdle) driver.want(id);
        else if (goes_idle) driver.idle(id);
        else if (client.turn() == Turn::kRunning && client.yield_asked) driver.boundary(id);
        iterations += goes_idle ? 1 : 0;
        if (driver.faults() != "") return driver.faults();
        const std::string chance = unused_chance(driver);
        if (chance != "") return fmt::format("{} after step {}", chance, step);
    }
    return iterations > 100 ? "" : "next to nothing was done";
}

TEST_P(EveryPolicy, IsWorkConservingUnlessExclusive) {
    if (policy.info.exclusive) GTEST_SKIP() << "it idles with the one it lets run";
    for (const unsigned lanes_max : {0u, 1u, 2u}) EXPECT_EQ(first_unused_chance(policy, lanes_max, 2), "") << lanes_max;
}

TEST_P(EveryPolicy, IsWorkConservingUnlessExclusiveWithMoreUsersThanLanesThatMayRun) {
    if (policy.info.exclusive) GTEST_SKIP() << "it idles with the one it lets run";
    for (const unsigned lanes_max : {0u, 1u, 2u, 3u}) EXPECT_EQ(first_unused_chance(policy, lanes_max, 4), "") << lanes_max;
}

TEST_P(EveryPolicy, IfItClaimsThatNobodyStarvesGivesEveryoneATurnInEachRound) {
    if (!policy.info.starvation_free) GTEST_SKIP() << "it makes no such claim";
    constexpr std::size_t kClients = 8;
    Driver driver(small_device(1), policy, fallback_policy());
    for (std::size_t i = 0; i < kClients; ++i) driver.attach();
    for (std::size_t i = 0; i < kClients; ++i) driver.want(ClientId(i));
    driver.play(seconds(4), milliseconds(10));
    std::vector<ClientId> turns;
    for (const Action& action : driver.actions()) {
        if (const auto* grant = std::get_if<action::Grant>(&action)) turns.push_back(grant->client);
    }
    ASSERT_GT(turns.size(), 20 * kClients);
    for (std::size_t start = 0; start + kClients <= turns.size(); ++start) {
        const auto from = turns.begin() + static_cast<std::ptrdiff_t>(start);
        EXPECT_EQ(std::set<ClientId>(from, from + kClients).size(), kClients) << "in the round from turn " << start;
    }
}

/// What the users of these jobs attain together in a while, as shares; all jobs outlast it.
std::map<UserId, double> shares_of_users(const Policy& policy, const std::vector<sim::SimulatedJob>& jobs,
                                         unsigned lanes_max) {
    sim::SimulationOptions options;
    options.engine.capacity = gibibytes(64);
    options.engine.strict = true;
    options.engine.share_by_user = true;
    options.engine.lanes_max = lanes_max;
    options.profiles_known = true;
    options.lasts = seconds(60);
    sim::TimelineRecorder ran;
    sim::Simulation simulation(options, jobs, policy, fallback_policy());
    simulation.observe(ran);
    static_cast<void>(simulation.run());
    std::map<UserId, double> shares;
    double all_s = 0;
    for (const sim::Segment& segment : ran.segments()) {
        const double time_s = (segment.end - segment.start).seconds();
        shares[jobs[index_of(segment.client)].user] += time_s;
        all_s += time_s;
    }
    for (auto& [user, share] : shares) share /= all_s;
    return shares;
}

sim::SimulatedJob long_job(std::uint32_t user) {
    sim::SimulatedJob job;
    job.name = "job";
    job.user = UserId{user};
    job.iterations = 1'000'000;
    job.iteration_time = milliseconds(10);
    job.persistent = mebibytes(100);
    job.ephemeral = mebibytes(200);
    return job;
}

TEST_P(EveryPolicy, ThatIsTimeSlicedGivesOneJobOfOneUserAsMuchAsNineOfAnother) {
    if (!policy.info.time_sliced) GTEST_SKIP() << "it shares no time";
    for (const unsigned lanes_max : {0u, 1u}) {
        SCOPED_TRACE(lanes_max);
        std::vector<sim::SimulatedJob> jobs(9, long_job(1));
        jobs.push_back(long_job(2));
        for (std::size_t i = 0; i < 9; ++i) jobs[i].priority = 5;
        jobs[0].weight = 100;
        EXPECT_NEAR(shares_of_users(policy, jobs, lanes_max)[UserId{2}], 0.5, 0.02);
        for (sim::SimulatedJob& job : jobs) job.iteration_time = milliseconds(job.user == UserId{1} ? 70 : 3);
        EXPECT_NEAR(shares_of_users(policy, jobs, lanes_max)[UserId{2}], 0.5, 0.02) << "with iterations of unlike length";
        jobs.push_back(long_job(3));
        EXPECT_NEAR(shares_of_users(policy, jobs, lanes_max)[UserId{2}], 1.0 / 3, 0.02);
    }
}

TEST_P(EveryPolicy, ThatIsTimeSlicedLetsNoUserCatchUpOnTheTimeBeforeHeCame) {
    if (!policy.info.time_sliced) GTEST_SKIP() << "it shares no time";
    std::vector<sim::SimulatedJob> jobs(3, long_job(1));
    jobs.push_back(long_job(2));
    jobs.back().arrival = seconds(30);
    EXPECT_NEAR(shares_of_users(policy, jobs, 0)[UserId{2}], 0.25, 0.02) << "half of half of the time";
}

TEST_P(EveryPolicy, ThatIsTimeSlicedLetsAUserWithNothingToRunGiveWay) {
    if (!policy.info.time_sliced) GTEST_SKIP() << "it shares no time";
    std::vector<sim::SimulatedJob> jobs(3, long_job(1));
    jobs.push_back(long_job(2));
    jobs.back().think = milliseconds(90);
    const double share = shares_of_users(policy, jobs, 0)[UserId{2}];
    EXPECT_GT(share, 0.05);
    EXPECT_LT(share, 0.15);
}

TEST_P(EveryPolicy, BringsEveryJobOfASmallWorkloadToItsEnd) {
    for (const bool profiles_known : {true, false}) {
        SCOPED_TRACE(profiles_known);
        std::vector<sim::SimulatedJob> jobs = sim::make_workload("uniform:12", 3).value();
        for (sim::SimulatedJob& job : jobs) job.arrival = job.arrival / 20;  // all are there at once
        sim::SimulationOptions options;
        options.engine.capacity = gibibytes(6);
        options.engine.strict = true;
        options.profiles_known = profiles_known;
        options.events_max = 1'000'000;
        sim::Simulation simulation(options, jobs, policy, fallback_policy());
        const sim::SimulationResult result = simulation.run();
        EXPECT_TRUE(result.finished);
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            EXPECT_EQ(result.jobs[i].outcome, sim::Outcome::kDone) << jobs[i].name;
            EXPECT_EQ(result.jobs[i].iterations, jobs[i].iterations) << jobs[i].name;
        }
        EXPECT_EQ(simulation.engine().reserved(), Bytes{});
        EXPECT_EQ(result.statistics.fallbacks, 0u);
    }
}

}  // namespace
}  // namespace salus
