#include "core/overlap.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace salus {
namespace {

using Set = Overlap::Set;

Set without(const Set& set, ClientId client) {
    Set rest = set;
    std::erase(rest, client);
    return rest;
}

Set joined(const Set& a, const Set& b) {
    Set both;
    std::ranges::merge(a, b, std::back_inserter(both));
    return both;
}

bool contains(const Set& set, ClientId client) { return std::ranges::binary_search(set, client); }

/// Iterations a second, of each member; empty if the parts are not those of exactly these members, or say nothing.
std::vector<double> rates_of(const Set& members, std::span<const Overlap::Part> parts) {
    std::vector<double> rates;
    if (parts.size() != members.size()) return rates;
    for (const ClientId member : members) {
        const auto part = std::ranges::find(parts, member, &Overlap::Part::client);
        if (part == parts.end() || part->iterations == 0 || part->time.ns <= 0) return {};
        rates.push_back(static_cast<double>(part->iterations) / part->time.seconds());
    }
    return rates;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ figures

void Samples::add(double value) {
    if (values_.size() == kMost) values_.erase(values_.begin());
    values_.push_back(value);
}

double Samples::mean() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return values_.empty() ? 0 : sum / static_cast<double>(values_.size());
}

double Samples::deviation() const {
    if (values_.size() < 2) return 0;
    double squares = 0;
    for (const double value : values_) squares += (value - mean()) * (value - mean());
    return std::sqrt(squares / static_cast<double>(values_.size() - 1));
}

double Samples::error() const {
    constexpr double kUsual = 0.05;  // as if two more figures were off by this share of the mean
    if (values_.empty()) return 0;
    const auto count = static_cast<double>(values_.size());
    const double squares = deviation() * deviation() * (count - 1) + 2 * kUsual * mean() * kUsual * mean();
    return std::sqrt(squares / (count + 1) / count);
}

bool Samples::is_far(double value, double least) const {
    constexpr std::size_t kSeries = 4;
    constexpr double kVaries = 4;  // standard deviations
    if (values_.size() < kSeries) return false;
    return std::abs(value - mean()) > std::max(least * mean(), kVaries * deviation());
}

double Overlap::rate_in(const Set& members, const std::vector<double>& rates) const {
    double sum = 0;
    for (std::size_t i = 0; i < members.size(); ++i) sum += rates[i] * clients_.at(members[i]).alone_s.mean();
    return sum;
}

std::optional<Rate> Overlap::rate_of(const Set& members) const {
    if (members.size() == 1) return Rate{};
    const auto found = evidence_.find(members);
    if (found == evidence_.end() || found->second.rates.empty()) return std::nullopt;
    Samples together;
    std::vector<double> part_of(members.size(), 0);
    for (const std::vector<double>& rates : found->second.rates) {
        together.add(rate_in(members, rates));
        for (std::size_t i = 0; i < members.size(); ++i) part_of[i] += rates[i];
    }
    double squares = together.error() * together.error();
    for (std::size_t i = 0; i < members.size(); ++i) {
        const double error = part_of[i] / static_cast<double>(together.count()) * clients_.at(members[i]).alone_s.error();
        squares += error * error;
    }
    return Rate{together.mean(), std::sqrt(squares), together.count()};
}

/// What the worst-off of them does at once, relative to taking turns.
double Overlap::least_part(const Set& members) const {
    const std::vector<std::vector<double>>& samples = evidence_.at(members).rates;
    double least = std::numeric_limits<double>::max();
    for (std::size_t i = 0; i < members.size(); ++i) {
        double sum = 0;
        for (const std::vector<double>& rates : samples) sum += rates[i];
        const double part = sum / static_cast<double>(samples.size()) * clients_.at(members[i]).alone_s.mean();
        least = std::min(least, part * static_cast<double>(members.size()));
    }
    return least;
}

Rate Overlap::worth_of(const std::vector<Set>& division) const {
    Rate worth{0, 0, std::numeric_limits<std::size_t>::max()};
    double squares = 0;
    for (const Set& company : division) {
        const Rate rate = rate_of(company).value_or(Rate{});
        const auto size = static_cast<double>(company.size());
        worth.mean += size * rate.mean;
        squares += size * rate.error * size * rate.error;
    }
    worth.error = std::sqrt(squares);
    return worth;
}

/// At which the clients' work is done without the change.
double Overlap::usual_rate(const Change& change) const {
    std::size_t clients = 0;
    for (const Set& company : change.from) clients += company.size();
    return worth_of(change.from).mean / static_cast<double>(clients);
}

Overlap::Gain Overlap::gain_of(const Change& change) const {
    const Rate now = worth_of(change.from);
    const Rate then = worth_of(change.to);
    const double ratio = then.mean / now.mean;
    return {ratio - 1, std::hypot(then.error / now.mean, ratio * now.error / now.mean)};
}

Duration Overlap::alone(ClientId client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? Duration{} : seconds_of(found->second.alone_s.mean());
}

Overlap::Set Overlap::company_of(ClientId client) const {
    const auto found = std::ranges::find_if(companies_, [&](const Set& company) { return contains(company, client); });
    return found == companies_.end() ? Set{client} : *found;
}

// ------------------------------------------------------------------------------------------------------ who is there

/// Whoever comes has not earned anything: so trials cost no more at first than later.
void Overlap::add(ClientId client, UserId user, Instant now) {
    const auto [known, is_new] = clients_.try_emplace(client);
    known->second.user = user;
    if (!is_new) return;
    known->second.since = now;
    earn(now);
    credit_s_ = std::min(credit_s_, 0.0);
    look_again_at_ = now;
}

/// The others of its company stay together: what is not known of them yet will be seen when they run.
void Overlap::remove(ClientId client) {
    std::erase_if(recalled_, [&](const auto& entry) { return contains(entry.first, client); });
    if (!knows(client)) return;
    const Set company = company_of(client);
    std::erase(companies_, company);
    if (company.size() > 2) {
        companies_.push_back(without(company, client));
        evidence_.erase(companies_.back());
    }
    std::erase_if(evidence_, [&](const auto& entry) { return contains(entry.first, client); });
    clients_.erase(client);
    trial_.reset();
}

/// Its pace is another than before.
void Overlap::forget(ClientId client, Instant now) {
    const Set company = company_of(client);
    if (company.size() > 1) {
        std::erase(companies_, company);
        ++changes_;
    }
    std::erase_if(evidence_, [&](const auto& entry) { return contains(entry.first, client); });
    Known& known = clients_.at(client);
    std::erase_if(recalled_, [&](const auto& entry) { return contains(entry.first, client); });  // of another pace
    known = {.user = known.user, .since = known.since, .alone_s = {}, .measured_at = now, .turns_s = {}};
}

void Overlap::recall(ClientId a, ClientId b, double rate) { recalled_[{std::min(a, b), std::max(a, b)}] = rate; }

std::optional<double> Overlap::recalled(ClientId a, ClientId b) const {
    const auto found = recalled_.find({std::min(a, b), std::max(a, b)});
    return found == recalled_.end() ? std::nullopt : std::optional(found->second);
}

bool Overlap::is_recalled(const Set& members) const {
    const auto found = evidence_.find(members);
    return found != evidence_.end() && found->second.is_recalled;
}

std::vector<Overlap::Pair> Overlap::pairs_of(ClientId client) const {
    std::vector<Pair> pairs;
    for (const auto& [members, evidence] : evidence_) {
        // One sample is enough to give a pair up, if it is clear.
        const bool is_known = evidence.last.samples >= kFew || (evidence.last.samples > 0 && evidence.given_up > 0);
        if (is_known && members.size() == 2 && contains(members, client))
            pairs.push_back({members[0], members[1], evidence.last});
    }
    return pairs;
}

void Overlap::has_no_room(const Set& members, Instant now) { evidence_[members].next_at = now + kTryAgainAfter; }

// ------------------------------------------------------------------------------------------------------- what is next

void Overlap::earn(Instant now) {
    credit_s_ = std::min(credit_s_ + kCostShare * (now - earned_until_).seconds(), kCreditMost.seconds());
    earned_until_ = now;
}

Duration Overlap::stretch_of(const Set& members) const {
    Duration slowest;
    for (const ClientId member : members) slowest = std::max(slowest, alone(member));
    const Duration all = slowest * (kIterationsLeast * static_cast<std::int64_t>(members.size()));
    return std::clamp(all, kStretchLeast, kStretchMost);
}

/// What could be done with the company of this client: it merges with another, takes a member of another, or loses one.
std::vector<Overlap::Change> Overlap::changes_for(ClientId first, std::span<const ClientId> ready, std::size_t most,
                                                  Instant now) const {
    std::vector<Change> changes;
    const Set own = company_of(first);
    const auto is_known = [&](const Set& company) {
        const auto rate = rate_of(company);
        return company.size() == 1 || (rate && rate->samples >= kFew);
    };
    if (!is_known(own)) return changes;
    for (const ClientId id : ready) {
        const Set other = company_of(id);
        if (other == own || !knows(id) || !is_known(other) || clients_.at(id).user != clients_.at(first).user) continue;
        if (!is_warm(first, now) || !is_warm(id, now)) continue;
        const Set both = joined(own, other), rest = without(other, id), taken = joined(own, {id});
        if (other.front() == id) changes.push_back({both, {own, other}, {both}});
        if (!rest.empty() && is_known(rest)) changes.push_back({taken, {own, other}, {taken, rest}});
    }
    for (const ClientId id : own) {
        const Set rest = without(own, id);
        if (rest.size() > 1) changes.push_back({rest, {own}, {rest, Set{id}}});
    }
    std::erase_if(changes, [&](const Change& change) {
        return change.tried.size() > most || !std::ranges::includes(ready, change.tried);
    });
    return changes;
}

/// Of all that could be tried, whoever's turn it is: one that makes a company larger; of these the one that was given up
/// least often, with those that were least often in vain in others; of these one with those that gain most already, or the
/// one that has begun.
std::optional<Overlap::Change> Overlap::choose_trial(std::span<const ClientId> ready, std::size_t most, Instant now) {
    std::optional<Change> best;
    std::tuple<bool, unsigned, unsigned> best_order;
    std::tuple<double, int, bool> best_progress;
    for (const ClientId first : ready) {
        if (!knows(first) || company_of(first).front() != first) continue;  // of one company they are all the same
        for (Change& change : changes_for(first, ready, most, now)) {
            if (best && change.tried == best->tried) continue;
            const Evidence& evidence = evidence_for(change.tried, now);
            if (evidence.next_at > now) continue;
            // Who is to blame if a larger company was in vain is not known; so a side counts that never was.
            unsigned least_in_vain = std::numeric_limits<unsigned>::max(), most_in_vain = 0;
            for (const Set& side : change.from) {
                unsigned in_vain = 0;
                for (const ClientId id : side) in_vain = std::max(in_vain, clients_.at(id).given_up);
                least_in_vain = std::min(least_in_vain, in_vain);
                most_in_vain = std::max(most_in_vain, in_vain);
            }
            const bool shrinks =
                std::ranges::any_of(change.from, [&](const Set& s) { return s.size() > change.tried.size(); });
            const std::tuple order{shrinks, evidence.given_up, least_in_vain};
            if (best && best_order < order) continue;
            const std::tuple progress{usual_rate(change), -static_cast<int>(most_in_vain),
                                      !evidence.rates.empty() || evidence.confirms};
            if (best && best_order == order && best_progress >= progress) continue;
            best = std::move(change);
            best_order = order;
            best_progress = progress;
        }
    }
    return best;
}

/// What is known of this set, unless it is too old; at first, by what earlier runs have shown.
Overlap::Evidence& Overlap::evidence_for(const Set& tried, Instant now) {
    const auto [found, is_new] = evidence_.try_emplace(tried);
    Evidence& evidence = found->second;
    if (is_new && tried.size() == 2) {
        const std::optional<double> before = recalled(tried[0], tried[1]);
        if (before && *before < 1 + kMargin) evidence.next_at = now + kTryAgainAfter, evidence.given_up = 1;
    }
    if (evidence.next_at <= now && now - evidence.last_at > kForgetAfter) evidence.rates.clear(), evidence.confirms = false;
    return evidence;
}

/// A stretch alone for the first of them that has few figures, or old ones.
std::optional<Overlap::Turn> Overlap::measure_alone(const Set& members, Instant now) const {
    for (const ClientId member : members) {
        const Known& known = clients_.at(member);
        if (known.alone_s.count() < kEnough || now - known.measured_at > kVerifyEvery)
            return Turn{{member}, stretch_of({member}), /*is_trial=*/true};
    }
    return std::nullopt;
}

bool Overlap::is_warm(ClientId client, Instant now) const { return now - clients_.at(client).since >= kWarmUp; }

/// Of the time in which it runs alone.
double Overlap::lost_alone(ClientId client) const {
    const std::optional<Rate> usual = rate_of(company_of(client));
    return usual && usual->mean > 1 ? 1 - 1 / usual->mean : 0;
}

std::nullopt_t Overlap::look_again_in(Duration time, Instant now) {
    look_again_at_ = now + time;
    return std::nullopt;
}

/// Of the time of a trial: what time slicing loses; more if those that run meanwhile are few beside those that usually do.
double Overlap::likely_loss(const Change& change) const {
    return std::max(kUsualCost, 1 - static_cast<double>(change.tried.size()) / usual_rate(change));
}

/// What is worth its cost just now: a stretch alone for a member that lacks figures, or clients at once.
std::optional<Overlap::Trial> Overlap::what_to_try(ClientId first, std::span<const ClientId> ready, std::size_t most,
                                                   Instant now) {
    const auto affordable = [&](const Turn& alone) { return affords(lost_alone(alone.members.front()), alone.length); };
    const Set company = company_of(first);
    if (credit_s_ < 0) return std::nullopt;
    if (company.size() > 1 && std::ranges::includes(ready, company)) {
        const auto alone = measure_alone(company, now);
        if (alone && affordable(*alone)) return Trial{*alone, {}};
    }
    if (now < look_again_at_) return std::nullopt;  // to choose takes a while, and turns are short
    const auto change = choose_trial(ready, most, now);
    // Where few are ready just now, the next turn may bring others.
    if (!change) return look_again_in(2 * ready.size() > clients_.size() ? kLookAgain : kLookSoon, now);
    if (const auto alone = measure_alone(change->tried, now))
        return affordable(*alone) ? std::optional(Trial{*alone, {}}) : std::nullopt;
    const Duration stretch = stretch_of(change->tried);
    const double lacks_s = likely_loss(*change) * stretch.seconds() - credit_s_;
    if (lacks_s > 0) return look_again_in(std::min(seconds_of(lacks_s / kCostShare), seconds(1)), now);
    return Trial{{change->tried, stretch, /*is_trial=*/true}, change};
}

/// A larger company all of whose new pairs have gained in earlier runs.
std::optional<Overlap::Change> Overlap::recalled_change(ClientId first, std::span<const ClientId> ready, std::size_t most,
                                                        Instant now) const {
    if (recalled_.empty()) return std::nullopt;
    const Set own = company_of(first);
    for (const Change& change : changes_for(first, ready, most, now)) {
        const auto tried = evidence_.find(change.tried);
        const bool is_open = tried == evidence_.end() || (tried->second.given_up == 0 && tried->second.next_at <= now);
        if (!is_open || change.tried.size() <= own.size()) continue;
        const bool gains = std::ranges::all_of(own, [&](ClientId a) {
            return std::ranges::all_of(
                change.tried, [&](ClientId b) { return contains(own, b) || recalled(a, b).value_or(0) > 1 + kMargin; });
        });
        if (gains) return change;
    }
    return std::nullopt;
}

/// First their paces alone are measured, if that costs nothing or can be afforded; then they run at once.
std::optional<Overlap::Turn> Overlap::follow_recall(const Change& change, Instant now) {
    if (const auto alone = measure_alone(change.tried, now)) {
        const double lost = lost_alone(alone->members.front());
        return lost == 0 || affords(lost, alone->length) ? alone : std::nullopt;
    }
    apply(change);
    evidence_[change.tried] = {.rates = {}, .last_at = now, .next_at = {}, .is_recalled = true, .last = {}};
    return Turn{change.tried, {}, false};
}

Overlap::Turn Overlap::next(ClientId first, std::span<const ClientId> ready, std::size_t most, Instant now) {
    earn(now);
    trial_.reset();
    if (!knows(first)) return {{first}, {}, false};
    if (const Set company = company_of(first); company.size() > most) {  // as many might, when it was formed
        std::erase(companies_, company);
        ++changes_;
    }
    if (turns_to_trial_ > 0) {
        --turns_to_trial_;
        return {company_of(first), {}, false};
    }
    if (const auto change = recalled_change(first, ready, most, now)) {
        if (const auto turn = follow_recall(*change, now)) return *turn;
    }
    if (const auto trial = what_to_try(first, ready, most, now)) {
        trial_ = trial->change;
        return trial->turn;
    }
    return {company_of(first), {}, false};
}

// ---------------------------------------------------------------------------------------------------------- what came

/// What is lost by a stretch, its beginning and end included, where the same work is usually done at that rate.
void Overlap::pay(std::span<const Part> parts, Duration lasted, double usual_rate) {
    double work_s = 0;
    for (const Part& part : parts) work_s += static_cast<double>(part.iterations) * clients_.at(part.client).alone_s.mean();
    credit_s_ -= std::max(lasted.seconds() - work_s / usual_rate, 0.0);
}

void Overlap::ended(const Turn& turn, std::span<const Part> parts, Duration lasted, Instant now) {
    const std::optional<Change> trial = std::exchange(trial_, std::nullopt);
    if (std::ranges::any_of(turn.members, [&](ClientId id) { return !knows(id); })) return;
    const bool says_nothing = rates_of(turn.members, parts).empty();
    if (turn.is_trial && says_nothing) return broke_off();
    if (says_nothing) return;
    if (turn.is_trial) broken_off_ = 0;
    if (turn.members.size() == 1) {
        ran_alone(parts[0], turn.is_trial, now);
        const std::optional<Rate> usual = rate_of(company_of(parts[0].client));
        if (turn.is_trial && usual && usual->mean > 1) pay(parts, lasted, usual->mean);
        return;
    }
    const bool is_trial = turn.is_trial && trial && trial->tried == turn.members;
    if (is_trial) {
        ++trials_;
        pay(parts, lasted, usual_rate(*trial));
    }
    ran_together(turn.members, parts, now);
    if (is_trial) decide(*trial, now);
    else if (std::ranges::find(companies_, turn.members) != companies_.end()) review(turn.members);
}

/// It would be tried again at once, and the client whose turn it was would wait for ever.
void Overlap::broke_off() {
    trial_.reset();
    broken_off_ = std::min(broken_off_ + 1, kDoublingsMost);
    turns_to_trial_ = 1u << broken_off_;
}

void Overlap::ran_alone(const Part& part, bool is_stretch, Instant now) {
    constexpr double kOtherPace = 0.3;
    constexpr double kOtherScale = 1.1;  // three times as much, or a third
    Known& known = clients_.at(part.client);
    const double iteration_s = part.time.seconds() / static_cast<double>(part.iterations);
    if (!is_stretch) {
        const bool was_odd = std::exchange(known.is_odd, known.turns_s.is_far(iteration_s, kOtherPace));
        if (!known.is_odd) return known.turns_s.add(iteration_s);
        if (!was_odd) return;  // one may be an accident
        forget(part.client, now);
        return known.turns_s.add(iteration_s);
    }
    const Set company = company_of(part.client);
    // One figure that is off by far, a step that was compiled anew, would spoil the mean of all others.
    const bool is_off = known.alone_s.count() > 0 && std::abs(std::log(iteration_s / known.alone_s.mean())) > kOtherScale;
    if (is_off || known.alone_s.is_far(iteration_s, kOtherPace)) forget(part.client, now);
    known.alone_s.add(iteration_s);
    known.measured_at = now;
    if (company.size() > 1 && company_of(part.client) == company) review(company);
}

void Overlap::ran_together(const Set& members, std::span<const Part> parts, Instant now) {
    Evidence& evidence = evidence_[members];
    if (evidence.rates.size() == Samples::kMost) evidence.rates.erase(evidence.rates.begin());
    evidence.rates.push_back(rates_of(members, parts));
    evidence.last_at = now;
    const bool paces_known =
        std::ranges::all_of(members, [&](ClientId id) { return clients_.at(id).alone_s.count() >= kFew; });
    if (paces_known) evidence.last = *rate_of(members);
}

void Overlap::decide(const Change& change, Instant now) {
    Evidence& evidence = evidence_[change.tried];
    const Gain gain = gain_of(change);
    const std::size_t samples = evidence.rates.size();
    const bool crowds_out = samples >= kFew && least_part(change.tried) < kPartLeast;
    if (!crowds_out && samples >= enough_ && gain.mean - sure_ * gain.error > kMargin) {
        const bool is_clear = gain.mean - 2 * sure_ * gain.error > kMargin;
        if (!is_clear && !std::exchange(evidence.confirms, true)) return evidence.rates.clear();
        evidence.confirms = false;
        apply(change);
        for (const ClientId id : change.tried) evidence_[without(change.tried, id)].next_at = now + kTryAgainAfter;
        return;
    }
    const bool gains_little = gain.mean + (samples >= kFew ? kUnsure : sure_) * gain.error < kMargin;
    if (gains_little || crowds_out || samples >= kTooMany) give_up(change.tried, now);
}

void Overlap::give_up(const Set& tried, Instant now) {
    for (const ClientId member : tried) ++clients_.at(member).given_up;
    Evidence& evidence = evidence_[tried];
    const unsigned doublings = std::min(evidence.given_up, kDoublingsMost);
    evidence = {.rates = {},
                .last_at = now,
                .next_at = now + kTryAgainAfter * (std::int64_t{1} << doublings),
                .given_up = evidence.given_up + 1,
                .last = evidence.last};
}

void Overlap::apply(const Change& change) {
    for (const Set& company : change.from) std::erase(companies_, company);
    for (const Set& company : change.to) {
        if (company.size() > 1) companies_.push_back(company);
    }
    ++changes_;
}

/// Ends a company that most likely does not pay.
void Overlap::review(const Set& company) {
    const auto rate = rate_of(company);
    if (!rate || rate->samples < kFew) return;
    if (rate->mean + kUnsure * rate->error < 1 + kMargin) return end_company(company);
    Evidence& evidence = evidence_.at(company);
    if (!evidence.is_recalled) return;
    if (least_part(company) < kPartLeast) return end_company(company);
    evidence.is_recalled = rate->samples < enough_ || rate->mean - sure_ * rate->error <= 1;
}

void Overlap::end_company(const Set& company) {
    give_up(company, evidence_[company].last_at);
    std::erase(companies_, Set(company));
    ++changes_;
}

bool Overlap::look(std::span<const Part> parts, Instant now) {
    constexpr double kOtherRate = 0.15;
    constexpr double kOtherPace = 0.3;
    constexpr std::uint64_t kIterationsMany = 10;
    earn(now);
    Set members;
    for (const Part& part : parts) members.push_back(part.client);
    std::ranges::sort(members);
    if (std::ranges::find(companies_, members) == companies_.end()) return true;
    const std::vector<double> rates = rates_of(members, parts);
    if (rates.empty()) return true;
    const std::uint64_t fewest = std::ranges::min(parts, {}, &Part::iterations).iterations;
    const double unclear = 1.0 / static_cast<double>(fewest);  // what the ends of iterations may make out
    Samples together;
    std::vector<Samples> each(members.size());
    for (const std::vector<double>& before : evidence_[members].rates) {
        together.add(rate_in(members, before));
        for (std::size_t i = 0; i < members.size(); ++i) each[i].add(before[i]);
    }
    bool is_other = together.is_far(rate_in(members, rates), kOtherRate + unclear);
    for (std::size_t i = 0; i < members.size(); ++i) is_other = is_other || each[i].is_far(rates[i], kOtherPace + unclear);
    if (is_other) {
        for (const ClientId member : members) forget(member, now);
        return false;
    }
    if (fewest >= kIterationsMany) ran_together(members, parts, now);
    review(members);
    if (std::ranges::find(companies_, members) == companies_.end()) return false;
    return !what_to_try(members.front(), members, members.size(), now);
}

}  // namespace salus
