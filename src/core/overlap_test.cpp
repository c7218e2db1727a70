#include "core/overlap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace salus {
namespace {

using Set = Overlap::Set;

/// Clients that launch for `host_ms` and then need the device for `device_ms`, which works for one of them at a time.
struct Job {
    double host_ms = 1;
    double device_ms = 1;
    double alone_ms() const { return host_ms + device_ms; }
};

/// A device on which clients run at once, or take turns of 15 ms.
class OverlapTest : public testing::Test {
protected:
    ClientId add(Job job, std::uint32_t user = 1) {
        const ClientId id{static_cast<std::uint32_t>(jobs_.size())};
        jobs_.push_back(job);
        overlap_.add(id, UserId{user}, now_);
        present_.push_back(id);
        return id;
    }
    void remove(ClientId id) {
        overlap_.remove(id);
        std::erase(present_, id);
    }
    /// Iterations a second. Where all want more of the device than there is, changes from one to another cost 10 %.
    double pace(ClientId id, const Set& members) const {
        double wanted = 0;
        for (const ClientId member : members) wanted += job(member).device_ms / job(member).alone_ms();
        const double slow = wanted > 1 ? wanted * (members.size() > 1 ? change_cost_ : 1) : 1;
        return 1000 / (job(id).alone_ms() * slow);
    }
    const Job& job(ClientId id) const { return jobs_[index_of(id)]; }

    void turn() {
        if (present_.empty()) return;
        const ClientId first = present_[turns_++ % present_.size()];
        const Overlap::Turn turn = overlap_.next(first, present_, most_, now_);
        const bool is_company = turn.members.size() > 1 && !turn.is_trial;
        const bool others_wait = turn.members.size() < present_.size();
        const Duration usual = is_company && !others_wait ? Overlap::kLookEvery : milliseconds(15);
        const Duration length = turn.is_trial ? turn.length : usual;
        std::vector<Overlap::Part> parts;
        for (const ClientId id : turn.members) {
            const double noisy = pace(id, turn.members) * std::max(0.1, 1 + noise_ * random_.between(-1.7, 1.7));
            const double iterations = std::max(1.0, std::ceil(noisy * length.seconds()));
            parts.push_back({id, seconds_of(iterations / noisy), static_cast<std::uint64_t>(iterations)});
        }
        now_ = now_ + length;
        double worth = 0;
        for (const Overlap::Part& part : parts)
            worth += static_cast<double>(part.iterations) / part.time.seconds() * job(part.client).alone_ms() / 1000;
        work_s_ += worth * length.seconds();
        if (turn.is_trial) trial_s_ += length.seconds();
        if (is_company && !others_wait) static_cast<void>(overlap_.look(parts, now_));
        else overlap_.ended(turn, parts, std::ranges::max(parts, {}, &Overlap::Part::time).time, now_);
    }
    void run(Duration time) {
        work_s_ = trial_s_ = 0;
        for (const Instant end = now_ + time; now_ < end;) turn();
    }
    /// Seconds until the condition holds, at most a minute.
    template <typename Condition>
    double until(const Condition& holds) {
        const Instant begin = now_;
        while (!holds() && now_ - begin < minutes(1)) turn();
        return (now_ - begin).seconds();
    }
    void reset(std::uint64_t seed) {
        overlap_ = {};
        jobs_.clear();
        present_.clear();
        now_ = {};
        random_ = Random(seed);
    }
    bool together(const Set& members) const { return overlap_.company_of(members.front()) == members; }

    Overlap overlap_;
    Random random_{1};
    std::vector<Job> jobs_;
    std::vector<ClientId> present_;
    Instant now_{};
    std::size_t turns_ = 0;
    std::size_t most_ = 16;
    double noise_ = 0.02;
    double change_cost_ = 1.1;
    double work_s_ = 0, trial_s_ = 0;
};

constexpr Job kLaunchBound{1.8, 0.1};
constexpr Job kFillsDevice{0, 33};

TEST_F(OverlapTest, APairThatDoesNotFillTheDeviceRunsTogether) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    EXPECT_LT(until([&] { return together(pair); }), 5);
    run(seconds(30));
    ASSERT_TRUE(together(pair));
    EXPECT_NEAR(overlap_.rate_of(pair)->mean, 2, 0.1);
    EXPECT_LT(overlap_.rate_of(pair)->error, 0.1);
}

TEST_F(OverlapTest, ACompanyOfMoreThanMayRunEnds) {
    const Set all{add(kLaunchBound), add(kLaunchBound), add(kLaunchBound)};
    until([&] { return together(all); });
    ASSERT_TRUE(together(all));
    most_ = 2;
    EXPECT_LE(overlap_.next(all.front(), present_, most_, now_).members.size(), 2u);
    run(seconds(60));
    ASSERT_EQ(overlap_.companies().size(), 1u);
    EXPECT_EQ(overlap_.companies().front().size(), 2u);
}

// The other one gives its turns back too early.
TEST_F(OverlapTest, TrialsThatComeToNothingKeepNobodyFromTheirTurns) {
    for (const bool shows_no_iterations : {false, true}) {
        const ClientId first = add(kLaunchBound), other = add(kLaunchBound);
        int turns = 0, tried = 0;
        for (int i = 0; i < 1000; ++i) {
            const Overlap::Turn turn = overlap_.next(first, {{first, other}}, most_, now_);
            now_ = now_ + milliseconds(50);
            const bool is_its_own = turn.members == Set{first};
            turns += is_its_own ? 1 : 0;
            tried += is_its_own ? 0 : 1;
            if (is_its_own) overlap_.ended(turn, {{{first, milliseconds(50), 25}}}, milliseconds(50), now_);
            else if (shows_no_iterations) overlap_.ended(turn, {{{other, milliseconds(50), 0}}}, milliseconds(50), now_);
            else overlap_.broke_off();
        }
        EXPECT_GT(turns, 900);
        EXPECT_GT(tried, 10);
        remove(first);
        remove(other);
    }
}

TEST_F(OverlapTest, ClientsThatFillTheDeviceTakeTurns) {
    for (int i = 0; i < 8; ++i) add(kFillsDevice);
    run(minutes(10));
    EXPECT_TRUE(overlap_.companies().empty());
    EXPECT_GT(overlap_.trials(), 50u) << "it has not tried";
    EXPECT_GT(work_s_ / 600, 0.985);
}

TEST_F(OverlapTest, TrialsThatLoseCostAHundredthOfTheTime) {
    add(kFillsDevice);
    add(kFillsDevice);
    run(minutes(1));
    run(minutes(10));
    EXPECT_GT(trial_s_, 1.0) << "it has not tried again";
    EXPECT_GT(work_s_ / 600, 1 - Overlap::kCostShare);
}

TEST_F(OverlapTest, CompaniesGrowWhileThatPays) {
    Set all;
    for (int i = 0; i < 8; ++i) all.push_back(add(kLaunchBound));
    EXPECT_LT(until([&] { return together(all); }), 30);
    run(minutes(1));
    EXPECT_GT(work_s_ / 60, 6);
}

TEST_F(OverlapTest, OfAMixThoseRunTogetherThatGain) {
    Set small, large;
    for (int i = 0; i < 4; ++i) {
        large.push_back(add(kFillsDevice));
        small.push_back(add(kLaunchBound));
    }
    run(minutes(5));
    run(minutes(1));
    // The four small ones and a large one are 3.8 times as fast at once; the other three are as fast as alone.
    const Set company = overlap_.company_of(small.front());
    EXPECT_TRUE(std::ranges::includes(company, small));
    EXPECT_LE(company.size(), 5u);
    EXPECT_EQ(overlap_.companies().size(), 1u);
    EXPECT_GT(work_s_ / 60, 2.3);
}

TEST_F(OverlapTest, ACompanyIsNoLargerThanAllowed) {
    most_ = 2;
    for (int i = 0; i < 4; ++i) add(kLaunchBound);
    run(seconds(30));
    EXPECT_EQ(overlap_.companies().size(), 2u);
    for (const Set& company : overlap_.companies()) EXPECT_EQ(company.size(), 2u);
}

TEST_F(OverlapTest, ClientsOfTwoUsersDoNotRunTogether) {
    add(kLaunchBound, 1);
    add(kLaunchBound, 2);
    run(minutes(1));
    EXPECT_TRUE(overlap_.companies().empty());
}

TEST_F(OverlapTest, ABenefitThatEndsOrBeginsIsNoticedWithinTenSeconds) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    until([&] { return together(pair); });
    run(seconds(20));
    ASSERT_TRUE(together(pair));
    jobs_[0] = jobs_[1] = kFillsDevice;
    EXPECT_LT(until([&] { return !together(pair); }), 10);
    run(minutes(2));
    EXPECT_FALSE(together(pair));
    jobs_[0] = jobs_[1] = kLaunchBound;
    EXPECT_LT(until([&] { return together(pair); }), 10);
    run(minutes(1));
    EXPECT_TRUE(together(pair));
    jobs_[1] = kFillsDevice;
    EXPECT_LT(until([&] { return !together(pair); }), 10);
}

TEST_F(OverlapTest, NoiseDecidesNothing) {
    int trials = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        reset(seed);
        noise_ = 0.25;
        change_cost_ = 1;  // at once they are exactly as fast as in turns
        add({0, 20});
        add({0, 20});
        for (const Instant end = now_ + minutes(5); now_ < end;) {
            turn();
            ASSERT_TRUE(overlap_.companies().empty())
                << "seed " << seed << " after " << (now_ - Instant{}).seconds() << " s";
        }
        trials += static_cast<int>(overlap_.trials());
    }
    EXPECT_GT(trials, 1000);
}

TEST_F(OverlapTest, ANoisyGainThatIsLargeIsFound) {
    noise_ = 0.15;
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    EXPECT_LT(until([&] { return together(pair); }), 30);
    run(minutes(5));
    EXPECT_TRUE(together(pair));
}

TEST_F(OverlapTest, TheOthersStayTogetherWhenOneLeaves) {
    Set three{add(kLaunchBound), add(kLaunchBound), add(kLaunchBound)};
    until([&] { return together(three); });
    ASSERT_TRUE(together(three));
    remove(three.back());
    three.pop_back();
    EXPECT_TRUE(together(three));
    EXPECT_FALSE(overlap_.rate_of(three));
    run(seconds(30));
    EXPECT_TRUE(together(three));
    EXPECT_NEAR(overlap_.rate_of(three)->mean, 2, 0.1);
    remove(three.back());
    EXPECT_TRUE(overlap_.companies().empty());
}

TEST_F(OverlapTest, WithoutMemoryForLanesItTriesAgainLater) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    overlap_.has_no_room(pair, now_);
    run(seconds(9));
    EXPECT_EQ(overlap_.trials(), 0u);
    run(seconds(10));
    EXPECT_GT(overlap_.trials(), 0u);
}

TEST_F(OverlapTest, TrialsCostNoMoreInTheFirstMinute) {
    for (const std::size_t count : {2u, 8u, 12u}) {
        reset(1);
        for (std::size_t i = 0; i < count; ++i) add(kFillsDevice);
        run(minutes(1));
        EXPECT_GT(overlap_.trials(), 5u) << count;
        EXPECT_GE(work_s_ / 60, 1 - Overlap::kCostShare) << count;
    }
}

TEST_F(OverlapTest, WhoeverComesWhileTrialsHaveBeenEarnedHasNotEarnedThem) {
    add(kFillsDevice);
    run(minutes(10));
    for (int i = 0; i < 4; ++i) add(kFillsDevice);
    run(seconds(20));
    EXPECT_GE(work_s_ / 20, 1 - 1.2 * Overlap::kCostShare);
}

TEST_F(OverlapTest, FirstSecondsAreNotMeasured) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    run(Overlap::kWarmUp - milliseconds(50));
    EXPECT_EQ(overlap_.trials(), 0u);
    EXPECT_EQ(overlap_.alone(pair[0]), Duration{});
    run(seconds(5));
    EXPECT_TRUE(together(pair));
}

TEST_F(OverlapTest, AStepThatWasCompiledDoesNotSpoilWhatFollows) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    run(Overlap::kWarmUp);
    jobs_[0].host_ms = 4000;
    turn();
    turn();
    jobs_[0] = kLaunchBound;
    EXPECT_LT(until([&] { return together(pair); }), 5);
    EXPECT_NEAR(overlap_.alone(pair[0]).seconds(), kLaunchBound.alone_ms() / 1e3, 1e-4);
}

TEST_F(OverlapTest, WhatEarlierRunsHaveGainedIsNotTriedAgain) {
    const Set all{add(kLaunchBound), add(kLaunchBound), add(kLaunchBound)};
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) overlap_.recall(all[i], all[j], 1.9);
    }
    EXPECT_LT(until([&] { return together(all); }), 8) << "the turn in which they first run included";
    EXPECT_EQ(overlap_.trials(), 0u);
    EXPECT_TRUE(overlap_.is_recalled(all));
    EXPECT_LT(until([&] { return !overlap_.is_recalled(all); }), 60) << "it is confirmed";
    EXPECT_TRUE(together(all));
    EXPECT_NEAR(overlap_.rate_of(all)->mean, 3, 0.1);
}

TEST_F(OverlapTest, WhatEarlierRunsHaveGainedAndIsNotTrueAnyMoreEndsSoon) {
    const Set pair{add(kFillsDevice), add(kFillsDevice)};
    overlap_.recall(pair[0], pair[1], 1.9);
    EXPECT_LT(until([&] { return together(pair); }), 8);
    EXPECT_LT(until([&] { return !together(pair); }), 15);
    run(minutes(1));
    EXPECT_FALSE(together(pair));
    EXPECT_GT(work_s_ / 60, 1 - Overlap::kCostShare);
}

TEST_F(OverlapTest, WhatHasNotGainedInEarlierRunsIsTriedLater) {
    const Set pair{add(kLaunchBound), add(kLaunchBound)};
    overlap_.recall(pair[0], pair[1], 0.9);
    run(seconds(9));
    EXPECT_EQ(overlap_.trials(), 0u);
    run(seconds(10));
    EXPECT_TRUE(together(pair)) << "it has changed";
}

TEST_F(OverlapTest, PairsThatWereMeasuredCanBeRemembered) {
    const Set gain{add(kLaunchBound), add(kLaunchBound)};
    until([&] { return together(gain); });
    run(seconds(10));
    ASSERT_EQ(overlap_.pairs_of(gain[0]).size(), 1u);
    EXPECT_NEAR(overlap_.pairs_of(gain[0])[0].rate.mean, 2, 0.1);
    EXPECT_EQ(overlap_.pairs_of(gain[1])[0].a, gain[0]);
    reset(1);
    const Set loss{add(kFillsDevice), add(kFillsDevice)};
    run(seconds(30));
    ASSERT_EQ(overlap_.pairs_of(loss[0]).size(), 1u) << "also that they do not gain";
    EXPECT_NEAR(overlap_.pairs_of(loss[0])[0].rate.mean, 1 / change_cost_, 0.05);
    overlap_.remove(loss[1]);
    EXPECT_TRUE(overlap_.pairs_of(loss[0]).empty());
}

TEST(SamplesTest, AFigureIsFarIfItIsOffByMoreThanTheSeriesVaries) {
    Samples steady, wild;
    for (const double value : {1.0, 1.01, 0.99, 1.0}) steady.add(value);
    for (const double value : {1.0, 1.5, 0.5, 1.2}) wild.add(value);
    EXPECT_FALSE(steady.is_far(1.25, 0.3));
    EXPECT_TRUE(steady.is_far(1.35, 0.3));
    EXPECT_FALSE(wild.is_far(1.35, 0.3));
    EXPECT_TRUE(wild.is_far(4, 0.3));
    EXPECT_FALSE(Samples{}.is_far(4, 0.3)) << "of an empty series nothing is known";
}

}  // namespace
}  // namespace salus
