// Which batch clients run at once because that was measured to be faster.
//
// Note [Overlap]
// Clients that fill the device are best off one at a time; clients that wait for their own host most of the time are not. No
// table says which is which, so the engine tries it on the real jobs, in short stretches together and apart.
// - The rate of clients that run at once is the sum over them of (iterations a second together / iterations a second apart).
//   Taking turns has the rate 1. Time in which none of them runs, since all load data, does not count: others have it.
// - Clients that run at once form a company, which takes its turns as one. The clients of a user are always divided into
//   companies, mostly of one. A division with companies of sizes n and rates r is worth the sum of n * r: if turns are fair,
//   a company has n shares of the time. A trial decides between two divisions: whether two companies merge, one takes
//   a member of another, or one loses a member. So companies grow while that pays.
// - Nothing is decided by noise. To change the division, the gain must exceed kMargin by kSure standard errors, those of all
//   rates that the comparison rests on, and do so twice, with new samples; or by twice as many errors. To give a change up,
//   it is enough that it most likely gains less than kMargin; one sample, if that is clear. A company ends if its rate most
//   likely does not reach 1 + kMargin: less than it took to form it.
// - The sum must not hide that one is crowded out: each must do at least kPartLeast of what it would in turns.
// - Trials may cost kCostShare of the time, also at first: what is lost while the worse division runs. Stretches that lose
//   nothing are free. A trial begins when its usual cost has been earned since the last client came.
// - What a client does in its first seconds says little: libraries choose algorithms, and compile. Then it is not measured.
// - What earlier runs have shown of two commands is recalled (recall). If they gained, they run at once without a trial as
//   soon as the pace of each alone is known; so do larger companies all of whose pairs gained. Then the measurement must
//   confirm it, as if it had been tried. If they did not gain, they are tried later than others.
// - When the pace of a client changes, alone or in its company, all that was measured with it is forgotten, and its company
//   ends: apart nobody is worse off than without companies. Then trials begin again.
//
// Pure: it knows neither lanes nor turns. The engine tells it how far clients have come (together.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace salus {

/// The latest of a series of figures.
class Samples {
public:
    static constexpr std::size_t kMost = 16;

    void add(double value);
    std::size_t count() const { return values_.size(); }
    std::span<const double> values() const { return values_; }
    double mean() const;
    double deviation() const;  ///< standard deviation; 0 of fewer than two
    double error() const;      ///< standard error of the mean; few figures that happen to agree do not prove much
    /// Whether the value does not belong to the series: it is off by more than `least` of the mean, and by more than the
    /// series varies.
    bool is_far(double value, double least) const;

private:
    std::vector<double> values_;  ///< the oldest first
};

/// How fast clients are at once, relative to taking turns.
struct Rate {
    double mean = 1;
    double error = 0;
    std::size_t samples = 0;
};

class Overlap {
public:
    using Set = std::vector<ClientId>;  ///< sorted

    static constexpr double kMargin = 0.05;
    static constexpr double kPartLeast = 0.9;
    static constexpr double kSure = 4;
    static constexpr double kUnsure = 2;
    static constexpr std::size_t kEnough = 6;  ///< samples before a change, and of each client alone ...
    static constexpr std::size_t kFew = 3;     ///< ... and before it is given up
    static constexpr std::size_t kTooMany = Samples::kMost;
    static constexpr double kCostShare = 0.01;
    static constexpr double kUsualCost = 0.1;  ///< what a trial is expected to lose, of its time: as time slicing does
    static constexpr Duration kCreditMost = milliseconds(200);
    static constexpr Duration kWarmUp = seconds(1);  ///< a client is not measured before
    static constexpr Duration kStretchLeast = milliseconds(50);
    static constexpr Duration kStretchMost = seconds(1);
    static constexpr std::int64_t kIterationsLeast = 4;    ///< of the slowest, in a stretch
    static constexpr Duration kLookEvery = seconds(4);     ///< how often companies are looked at while they run
    static constexpr Duration kVerifyEvery = seconds(60);  ///< how often their members run alone, to compare
    static constexpr Duration kForgetAfter = seconds(30);  ///< a trial that was broken off begins again
    static constexpr Duration kTryAgainAfter = seconds(10);
    static constexpr Duration kLookAgain = milliseconds(200);  ///< how often, while there is nothing to try ...
    static constexpr Duration kLookSoon = milliseconds(20);    ///< ... and few are ready
    static constexpr unsigned kDoublingsMost = 4;

    /// What runs next.
    struct Turn {
        Set members;
        Duration length;        ///< of a trial: its stretch; 0: as the policy says
        bool is_trial = false;  ///< all members run from the beginning, or it is no trial
    };
    /// What a client did in a turn.
    struct Part {
        ClientId client = kNoClient;
        Duration time;  ///< from its grant until it gave that back, without the time in which nobody of the turn ran
        std::uint64_t iterations = 0;  ///< or launches, of a client that shows no iterations
    };

    /// From now on this client may run beside the others of its user.
    void add(ClientId client, UserId user, Instant now);
    /// It is gone, or takes turns alone from now on.
    void remove(ClientId client);
    bool knows(ClientId client) const { return clients_.contains(client); }

    /// What earlier runs have shown of these two. They need not be added yet.
    void recall(ClientId a, ClientId b, double rate);
    bool recalls(ClientId a, ClientId b) const { return recalled(a, b).has_value(); }
    /// The turn of a client that the policy has chosen. `ready`: sorted, clients that could run at once with it, and itself.
    /// `most`: so many clients may run at once.
    Turn next(ClientId first, std::span<const ClientId> ready, std::size_t most, Instant now);
    /// A trial came to nothing, because its clients gave their turns back early, say.
    void broke_off();
    /// There is no memory for lanes for these clients just now.
    void has_no_room(const Set& members, Instant now);
    /// A turn has ended that began `lasted` ago. Turns in which anything else disturbed the clients are not reported.
    void ended(const Turn& turn, std::span<const Part> parts, Duration lasted, Instant now);
    /// A company still runs, since `parts` were last reported. False: it should give its turn back.
    bool look(std::span<const Part> parts, Instant now);

    /// Those that run at once with this client by decision, itself included; only itself if it takes turns alone.
    Set company_of(ClientId client) const;
    /// What is known of these clients at once; nothing if they never ran so. Of a single client it is 1.
    std::optional<Rate> rate_of(const Set& members) const;
    std::span<const Set> companies() const { return companies_; }  ///< of more than one client
    /// Two clients that have run at once here, by decision or in trials.
    struct Pair {
        ClientId a = kNoClient, b = kNoClient;
        Rate rate;
    };
    /// Those with this client whose rate is known well enough to be recalled one day.
    std::vector<Pair> pairs_of(ClientId client) const;
    /// Whether these clients run at once because earlier runs gained, which is not confirmed yet.
    bool is_recalled(const Set& members) const;
    /// Time in one iteration alone; 0: not known yet.
    Duration alone(ClientId client) const;
    /// Lost time that trials may still cost, in seconds; negative: they have cost too much.
    double credit_s() const { return credit_s_; }
    std::uint64_t trials() const { return trials_; }
    std::uint64_t changes() const { return changes_; }  ///< of companies

private:
    friend class Saboteur;  // breaks it for the swarm's canaries: sim/saboteur.h

    struct Known {
        UserId user{};
        Instant since{};  ///< when it was added
        Samples alone_s;  ///< seconds for an iteration, in stretches alone
        Instant measured_at{};
        Samples turns_s;        ///< the same in all turns alone, however short
        bool is_odd = false;    ///< the last of them was far from those before
        unsigned given_up = 0;  ///< trials with it, since its pace is this
    };
    /// Of a set that has run at once.
    struct Evidence {
        std::vector<std::vector<double>> rates;  ///< iterations a second, of each member; the oldest first
        Instant last_at{};
        Instant next_at{};  ///< when to try it (again)
        unsigned given_up = 0;
        bool confirms = false;     ///< an earlier series of samples has shown the gain
        bool is_recalled = false;  ///< it runs by what earlier runs have shown, and is to be confirmed
        Rate last = {};            ///< that was known, if there were samples; also after they are forgotten
    };
    /// A division that a trial may bring about.
    struct Change {
        Set tried;              ///< the company that would be new
        std::vector<Set> from;  ///< the companies that are there ...
        std::vector<Set> to;    ///< ... and those that would be
    };
    /// (what `to` is worth / what `from` is worth) - 1
    struct Gain {
        double mean = 0;
        double error = 0;
    };

    struct Trial {
        Turn turn;
        std::optional<Change> change;  ///< none: only a member's pace alone is measured
    };

    void earn(Instant now);
    bool affords(double share_lost, Duration stretch) const { return credit_s_ >= share_lost * stretch.seconds(); }
    double lost_alone(ClientId client) const;
    bool is_warm(ClientId client, Instant now) const;
    std::vector<Change> changes_for(ClientId first, std::span<const ClientId> ready, std::size_t most, Instant now) const;
    std::optional<Change> choose_trial(std::span<const ClientId> ready, std::size_t most, Instant now);
    Evidence& evidence_for(const Set& tried, Instant now);
    std::optional<Trial> what_to_try(ClientId first, std::span<const ClientId> ready, std::size_t most, Instant now);
    std::optional<Change> recalled_change(ClientId first, std::span<const ClientId> ready, std::size_t most,
                                          Instant now) const;
    std::optional<Turn> follow_recall(const Change& change, Instant now);
    std::optional<double> recalled(ClientId a, ClientId b) const;
    std::optional<Turn> measure_alone(const Set& members, Instant now) const;
    Duration stretch_of(const Set& members) const;
    double usual_rate(const Change& change) const;
    double likely_loss(const Change& change) const;
    std::nullopt_t look_again_in(Duration time, Instant now);
    Gain gain_of(const Change& change) const;
    double least_part(const Set& members) const;
    Rate worth_of(const std::vector<Set>& division) const;
    void pay(std::span<const Part> parts, Duration lasted, double usual_rate);
    void ran_alone(const Part& part, bool is_stretch, Instant now);
    void ran_together(const Set& members, std::span<const Part> parts, Instant now);
    void decide(const Change& change, Instant now);
    void apply(const Change& change);
    void review(const Set& company);
    void end_company(const Set& company);
    void give_up(const Set& tried, Instant now);
    void forget(ClientId client, Instant now);
    double rate_in(const Set& members, const std::vector<double>& rates) const;

    std::map<ClientId, Known> clients_;
    std::vector<Set> companies_;
    std::map<Set, Evidence> evidence_;
    std::map<Set, double> recalled_;  ///< of pairs
    std::optional<Change> trial_;     ///< that is running
    double credit_s_ = 0;
    Instant earned_until_{};
    Instant look_again_at_{};  ///< then there may be something to try
    std::uint64_t trials_ = 0;
    std::uint64_t changes_ = 0;
    unsigned broken_off_ = 0;       ///< trials in a row that came to nothing
    unsigned turns_to_trial_ = 0;   ///< so many turns come before the next one
    std::size_t enough_ = kEnough;  ///< canaries change these two
    double sure_ = kSure;
};

}  // namespace salus
