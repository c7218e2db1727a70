// Checks the protocol of the control word over all interleavings: two clients, their helpers and the service.
//
// The search visits every reachable world, breadth first, so it finds a shortest counterexample. Each atomic operation is
// one step: a compare-and-swap (a failed one retries with the fresh word, so only its success counts), a notification, a
// futex's comparison, a wake-up, a message, a read. Where a policy or a client decides, the search follows every choice.
//
// Note [What the model leaves out]
// The epoch, which no futex sees and which would make the worlds infinitely many; crashes and restarts; words that a client
// makes up. The model does not check fairness: it accepts a begin() that enters although the word says yield. Only client A
// is asked again for a grant that is already revoked. The disabled test does this for both clients and takes some seconds.
#include "wire/control_word.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace salus::control {
namespace {

constexpr std::size_t kClients = 2;
constexpr std::array<std::size_t, kClients> kThreads{2, 1};

/// The real functions, and what the code around them must do. A seeded bug replaces one of these.
struct Protocol {
    Begin (*begin)(Word) = [](Word w) { return control::begin(w); };
    std::optional<Leave> (*leave)(Word) = control::leave;
    Settle (*settle)(Word, bool drained, bool lane_clean) = control::settle;
    std::optional<Word> (*acknowledge)(Word) = control::acknowledge;
    std::optional<Word> (*grant)(Word) = control::grant;
    TakeBack (*take_back)(Word, bool may_retract) = control::take_back;
    bool service_wakes = true;                 ///< after a grant
    bool helper_looks = true;                  ///< before it drains: see Note [A late message]
    std::array<bool, kClients> asked_again{};  ///< the service may take back a grant that is already revoked
};

// --------------------------------------------------------------------------------------------------------- the world

enum class At : std::uint8_t {
    kOutside,   ///< between end() and begin(), for any time
    kBegin,     ///< woken, about to read the word
    kAsk,       ///< will wait; owes the service a notification first
    kCompare,   ///< will wait if the word is still the one that it has seen
    kAsleep,    ///< in the futex
    kInside,    ///< inside an iteration
    kBoundary,  ///< was the last to leave
    kWake,      ///< has settled; owes the others a wake-up
    kTell,      ///< has settled; owes the service a notification
};
constexpr std::array kAtNames{"outside", "begin", "ask", "compare", "asleep", "inside", "boundary", "wake", "tell"};
enum class Helper : std::uint8_t { kRests, kLooks, kAcknowledges, kTells };
enum class View : std::uint8_t { kParked, kReady, kHolding };
enum class Service : std::uint8_t { kLoop, kRead, kWake, kSend };

struct Client {
    std::uint16_t word = 0;               ///< what the futex sees; with so few threads, 16 bits are enough
    std::array<std::uint16_t, 2> seen{};  ///< what a thread is about to compare with; else 0
    std::array<At, 2> at{};
    Helper helper{};
    View view{};             ///< what the service knows
    bool notified = false;   ///< a notification to the service is unread
    bool message = false;    ///< to the helper
    bool in_flight = false;  ///< since the last boundary: device work goes on
    bool unclean = false;    ///< since the last boundary: something has stayed in the lane

    bool operator==(const Client&) const = default;
    Word get() const { return unpack(word); }
    void set(const Word& w) { word = static_cast<std::uint16_t>(pack(w)); }
    auto count(At place) const { return std::count(at.begin(), at.end(), place); }
    bool waits() const { return count(At::kBegin) + count(At::kAsk) + count(At::kCompare) + count(At::kAsleep) > 0; }
    bool uses_lane() const { return get().holds() || count(At::kInside) + count(At::kBoundary) > 0; }
    void wake() { std::replace(at.begin(), at.end(), At::kAsleep, At::kBegin); }
};

struct World {
    std::array<Client, kClients> clients;
    Service service{};
    std::uint8_t served = 0;  ///< the client that the service is busy with; 0 in its loop

    bool operator==(const World&) const = default;
};
static_assert(std::has_unique_object_representations_v<World>, "it is hashed byte by byte");

struct HashWorld {
    std::size_t operator()(const World& world) const {
        std::array<char, sizeof(World)> bytes;
        std::memcpy(bytes.data(), &world, sizeof(World));
        return std::hash<std::string_view>{}({bytes.data(), bytes.size()});
    }
};

std::string describe(const World& world) {
    constexpr std::array kStates{"free", "granted", "running", "boundary", "idle", "revoked"};
    std::string text;
    for (std::size_t c = 0; c < kClients; ++c) {
        const Word w = world.clients[c].get();
        text += std::string(c == 0 ? "   [A " : " [B ") + kStates[static_cast<std::size_t>(w.state)];
        text += std::string(w.yield ? " yield" : "") + (w.want ? " want" : "") + (w.kept ? " kept" : "") + ":";
        for (std::size_t t = 0; t < kThreads[c]; ++t) {
            text += std::string(" ") + kAtNames[static_cast<std::size_t>(world.clients[c].at[t])];
        }
        text += "]";
    }
    return text;
}

// -------------------------------------------------------------------------------------------------------- properties

/// True if a thread will take up the grant. A kept grant waits for the client's next begin().
bool will_be_taken_up(const Client& client, std::size_t threads, bool wake_pending) {
    for (std::size_t t = 0; t < threads; ++t) {
        const At at = client.at[t];
        const bool will_look_again = (at == At::kAsk || at == At::kCompare) && client.seen[t] != client.word;
        if (at == At::kBegin || will_look_again) return true;
        if (at == At::kAsleep ? wake_pending : client.get().kept) return true;
    }
    return false;
}

/// What is wrong with a world; null if nothing is.
const char* violation(const World& world) {
    for (std::size_t c = 0; c < kClients; ++c) {
        const Client& client = world.clients[c];
        const Client& other = world.clients[1 - c];
        const Word word = client.get();
        const bool served = world.service != Service::kLoop && world.served == c;
        const bool wake_pending = (served && world.service == Service::kWake) || client.count(At::kWake) > 0;
        const bool quiet = !served && !client.notified && !client.message && client.helper == Helper::kRests &&
                           client.count(At::kAsleep) + client.count(At::kOutside) == 2;
        if (client.uses_lane() && other.uses_lane()) return "two clients in the lane";
        if (client.uses_lane() && other.in_flight) return "another's work in flight";
        if (client.uses_lane() && other.unclean) return "another's memory in the lane";
        if (word.inside != client.count(At::kInside)) return "miscounted threads";
        if (word.holds() && client.view != View::kHolding) return "unknown holder";
        if (word.state == State::kGranted && !will_be_taken_up(client, kThreads[c], wake_pending)) return "lost grant";
        if (quiet && client.view == View::kParked && client.count(At::kAsleep) > 0) return "forgotten sleeper";
    }
    return nullptr;
}

// ------------------------------------------------------------------------------------------------------- exploration

struct Finding {
    std::string what;   ///< empty: nothing is wrong
    std::string trace;  ///< the steps that lead there
    std::size_t worlds = 0;
    std::size_t steps = 0;
};

class Explorer {
public:
    explicit Explorer(const Protocol& protocol) : protocol_(protocol) {}

    Finding run() {
        visit(World{}, "", 0);
        for (from_ = 0; from_ < worlds_.size(); ++from_) {
            const std::size_t before = edges_.size();
            for (std::uint8_t c = 0; c < kClients; ++c) {
                for (std::size_t t = 0; t < kThreads[c]; ++t) thread_step(*worlds_[from_], c, t);
                helper_step(*worlds_[from_], c);
                service_step(*worlds_[from_], c);
            }
            if (broken_) return found(violation(*worlds_[*broken_]), *broken_);
            if (edges_.size() == before) return found("deadlock", from_);
        }
        for (std::uint8_t c = 0; c < kClients; ++c) {
            if (const auto stuck = waits_forever(c)) return found("waits forever", *stuck);
        }
        return found("", 0);
    }

private:
    static constexpr std::uint8_t kNobody = kClients;
    struct Edge {
        std::uint32_t from, to;
        std::uint8_t newcomer;  ///< the client whose thread has just called begin(), or kNobody
    };
    struct Origin {
        std::uint32_t from;
        std::uint8_t client;
        const char* step;
    };

    void visit(World world, const char* step, std::uint8_t c, std::uint8_t newcomer = kNobody) {
        Client& twins = world.clients[0];  // its two threads are interchangeable: sorting them halves the worlds
        if (std::pair(twins.at[0], twins.seen[0]) > std::pair(twins.at[1], twins.seen[1])) {
            std::swap(twins.at[0], twins.at[1]);
            std::swap(twins.seen[0], twins.seen[1]);
        }
        const auto [it, fresh] = index_.try_emplace(world, static_cast<std::uint32_t>(worlds_.size()));
        edges_.push_back({from_, it->second, newcomer});
        if (!fresh) return;
        worlds_.push_back(&it->first);
        origins_.push_back({from_, c, step});
        if (!broken_ && violation(world) != nullptr) broken_ = it->second;
    }

    void thread_step(World world, std::uint8_t c, std::size_t t) {
        Client& client = world.clients[c];
        At& at = client.at[t];
        const auto go = [&](At to, const char* step) {
            at = to;
            if (to != At::kAsk && to != At::kCompare) client.seen[t] = 0;
            visit(world, step, c);
        };
        switch (at) {
            case At::kOutside:
            case At::kBegin: {
                const std::uint8_t newcomer = at == At::kOutside ? c : kNobody;
                const Begin begin = protocol_.begin(client.get());
                client.set(begin.next);
                client.seen[t] = begin.entered ? std::uint16_t{0} : client.word;
                at = begin.entered ? At::kInside : begin.notify ? At::kAsk : At::kCompare;
                if (begin.entered) client.in_flight = client.unclean = false;  // set again at its next boundary
                return visit(world, begin.entered ? "begin: enters" : "begin: has to wait", c, newcomer);
            }
            case At::kAsk: client.notified = true; return go(At::kCompare, "notifies: it wants to run");
            case At::kCompare:
                if (client.seen[t] == client.word) return go(At::kAsleep, "falls asleep");
                return go(At::kBegin, "sees another word");
            case At::kAsleep: return;
            case At::kInside: {
                const auto left = protocol_.leave(client.get());
                if (!left) return;  // it stays inside; violation() finds it
                client.set(left->next);
                return go(left->last ? At::kBoundary : At::kOutside, "leaves");
            }
            case At::kBoundary: {
                const Word word = client.get();
                for (const bool drained : {false, true}) {
                    for (const bool clean : {false, true}) {
                        if (word.yield && !drained) continue;
                        const Settle settled = protocol_.settle(word, drained, clean);
                        client.set(settled.next);
                        client.in_flight = !drained;
                        client.unclean = !clean;
                        if (settled.wake && settled.notify) throw std::logic_error("the model knows but one debt at a time");
                        const At owing = settled.wake ? At::kWake : At::kTell;
                        go(settled.wake || settled.notify ? owing : At::kOutside, clean ? "settles" : "settles, not clean");
                    }
                }
                return;
            }
            case At::kWake: client.wake(); return go(At::kOutside, "wakes the others");
            case At::kTell: client.notified = true; return go(At::kOutside, "notifies: the grant is back");
        }
    }

    // Note [A late message]
    // When the service asks again for a grant that is already revoked, its message may arrive after that revocation is over.
    // Suppose that the helper then drained without looking, and looked at the word only to acknowledge. It could acknowledge
    // the next revocation while work is in flight that began after it drained. So it looks first. Only the helper changes a
    // revoked word's state, so looking and draining are one step here.
    void helper_step(World world, std::uint8_t c) {
        Client& client = world.clients[c];
        const auto go = [&](Helper to, const char* step) {
            client.helper = to;
            visit(world, step, c);
        };
        switch (client.helper) {
            case Helper::kRests:
                if (!std::exchange(client.message, false)) return;
                return go(Helper::kLooks, "helper takes the message");
            case Helper::kLooks:
                if (protocol_.helper_looks && client.get().state != State::kRevoked) return go(Helper::kRests, "it is late");
                client.in_flight = false;
                return go(Helper::kAcknowledges, "helper drains");
            case Helper::kAcknowledges: {
                const auto next = protocol_.acknowledge(client.get());
                if (next) client.set(*next);
                return go(next ? Helper::kTells : Helper::kRests, "helper acknowledges");
            }
            case Helper::kTells: client.notified = true; return go(Helper::kRests, "helper notifies");
        }
    }

    void service_step(World world, std::uint8_t c) {
        Client& client = world.clients[c];
        if (world.service == Service::kLoop) return decide(world, c);
        if (world.served != c) return;
        const Service task = std::exchange(world.service, Service::kLoop);
        world.served = 0;
        if (task == Service::kRead) learn(client);
        if (task == Service::kWake) client.wake();
        if (task == Service::kSend) client.message = true;
        constexpr std::array kSteps{"", "service reads", "service wakes", "service sends"};
        visit(world, kSteps[static_cast<std::size_t>(task)], c);
    }

    void decide(const World& world, std::uint8_t c) {
        const auto go = [&](Client client, Service to, const char* step) {
            World next = world;
            next.clients[c] = client;
            next.service = to;
            next.served = to == Service::kLoop ? std::uint8_t{0} : c;
            visit(next, step, c);
        };
        Client client = world.clients[c];
        if (std::exchange(client.notified, false)) go(client, Service::kRead, "service takes the notification");
        client = world.clients[c];
        if (client.view == View::kReady && world.clients[1 - c].view != View::kHolding) {
            const auto next = protocol_.grant(client.get());
            if (next) client.set(*next);
            client.view = next ? View::kHolding : View::kParked;
            return go(client, next && protocol_.service_wakes ? Service::kWake : Service::kLoop, "service grants");
        }
        if (client.view != View::kHolding) return;
        if (client.get().state == State::kRevoked && !protocol_.asked_again[c]) return;
        for (const bool may_retract : {false, true}) {
            client = world.clients[c];
            const TakeBack back = protocol_.take_back(client.get(), may_retract);
            client.set(back.next);
            if (back.outcome == TakeBack::Outcome::kTaken) learn(client);
            const bool drains = back.outcome == TakeBack::Outcome::kHelperDrains;
            go(client, drains ? Service::kSend : Service::kLoop, "service takes back");
        }
    }
    static void learn(Client& client) {
        const Word word = client.get();
        if (word.state == State::kFree) client.view = word.want ? View::kReady : View::kParked;
    }

    /// A world from which some waiting thread of the client can never enter, or nothing. It must be able to enter even if no
    /// further thread happens to call begin(): that would be luck, not a wake-up.
    std::optional<std::uint32_t> waits_forever(std::uint8_t c) const {
        std::vector<std::uint32_t> start(worlds_.size() + 1), sources(edges_.size()), reached;
        for (const Edge& edge : edges_) ++start[edge.to];
        for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
        for (const Edge& edge : edges_) sources[--start[edge.to]] = edge.newcomer == c ? edge.to : edge.from;
        std::vector<bool> good(worlds_.size());
        const auto reach = [&](std::uint32_t i) {
            if (!good[i]) reached.push_back(i);
            good[i] = true;
        };
        for (std::uint32_t i = 0; i < worlds_.size(); ++i) {
            if (!worlds_[i]->clients[c].waits()) reach(i);
        }
        while (!reached.empty()) {
            const std::uint32_t to = reached.back();
            reached.pop_back();
            for (std::uint32_t i = start[to]; i < start[to + 1]; ++i) reach(sources[i]);
        }
        const auto stuck = std::find(good.begin(), good.end(), false);
        if (stuck == good.end()) return std::nullopt;
        return static_cast<std::uint32_t>(stuck - good.begin());
    }

    Finding found(std::string what, std::uint32_t last) const {
        std::string trace;
        for (std::uint32_t i = last; i != 0; i = origins_[i].from) {
            const std::string client(1, static_cast<char>('A' + origins_[i].client));
            trace = client + ": " + origins_[i].step + describe(*worlds_[i]) + "\n" + trace;
        }
        return {std::move(what), "\n" + trace, worlds_.size(), edges_.size()};
    }

    const Protocol protocol_;
    std::unordered_map<World, std::uint32_t, HashWorld> index_;
    std::vector<const World*> worlds_;  ///< in the order of discovery
    std::vector<Origin> origins_;       ///< how each was found
    std::vector<Edge> edges_;
    std::uint32_t from_ = 0;
    std::optional<std::uint32_t> broken_;
};

void expect(std::string_view what, const Protocol& protocol) {
    const Finding finding = Explorer(protocol).run();
    EXPECT_EQ(finding.what, what) << finding.trace;
    std::cout << finding.worlds << " worlds, " << finding.steps << " steps\n";
}

TEST(ControlWordModel, IsSound) { expect("", {.asked_again = {true, false}}); }
TEST(ControlWordModel, DISABLED_IsSoundWithBothAskedAgain) { expect("", {.asked_again = {true, true}}); }

// ------------------------------------------------------------------------------------------------------- seeded bugs

Word with(Word w, bool Word::*flag, bool value) {
    w.*flag = value;
    return w;
}
Begin begin_no_want(Word w) { return w.state == State::kRevoked ? Begin{w} : begin(w); }
Begin begin_no_notify(Word w) { return w.state == State::kFree ? Begin{begin(w).next} : begin(w); }
Begin begin_no_count(Word w) { return w.state == State::kRunning && !w.yield ? Begin{w, true} : begin(w); }
Settle settle_no_want(Word w, bool drained, bool clean) {
    return settle(w.yield && clean ? with(w, &Word::want, false) : w, drained, clean);
}
Settle settle_no_wake(Word w, bool drained, bool clean) {
    return settle(!w.yield && clean ? with(w, &Word::want, false) : w, drained, clean);
}
Settle settle_unclean(Word w, bool drained, bool clean) { return settle(w, drained, clean || w.yield); }
std::optional<Word> acknowledge_no_want(Word w) { return acknowledge(with(w, &Word::want, false)); }
std::optional<Word> acknowledge_nothing(Word) { return std::nullopt; }
std::optional<Word> grant_with_want(Word w) { return grant(w) ? with(*grant(w), &Word::want, true) : grant(w); }
TakeBack take_undrained(Word w, bool may_retract) { return take_back(with(w, &Word::drained, true), may_retract); }
TakeBack take_kept(Word w, bool may_retract) { return take_back(with(w, &Word::kept, w.kept && !may_retract), may_retract); }
template <State kWhen>
TakeBack take_at_once(Word w, bool may_retract) {
    if (w.state == kWhen) w.state = State::kFree;
    return take_back(w, may_retract);
}

TEST(ControlWordBug, BeginOnRevokedDoesNotWant) { expect("forgotten sleeper", {.begin = begin_no_want}); }
TEST(ControlWordBug, BeginOnFreeDoesNotNotify) { expect("forgotten sleeper", {.begin = begin_no_notify}); }
TEST(ControlWordBug, BeginDoesNotCount) { expect("miscounted threads", {.begin = begin_no_count}); }
TEST(ControlWordBug, SettleDropsWantWhenItYields) { expect("forgotten sleeper", {.settle = settle_no_want}); }
TEST(ControlWordBug, SettleToIdleDoesNotWake) { expect("forgotten sleeper", {.settle = settle_no_wake}); }
TEST(ControlWordBug, SettleYieldsAnUncleanLane) { expect("another's memory in the lane", {.settle = settle_unclean}); }
TEST(ControlWordBug, AcknowledgeDropsWant) { expect("forgotten sleeper", {.acknowledge = acknowledge_no_want}); }
TEST(ControlWordBug, AcknowledgeDoesNothing) {
    expect("deadlock", {.acknowledge = acknowledge_nothing});
    expect("waits forever", {.acknowledge = acknowledge_nothing, .asked_again = {true, true}});
}
TEST(ControlWordBug, GrantKeepsWant) { expect("lost grant", {.grant = grant_with_want}); }
TEST(ControlWordBug, GrantDoesNotWake) { expect("lost grant", {.service_wakes = false}); }
TEST(ControlWordBug, TakeBackDoesNotDrain) { expect("another's work in flight", {.take_back = take_undrained}); }
TEST(ControlWordBug, TakeBackRetractsWhatWasKept) { expect("lost grant", {.take_back = take_kept}); }
TEST(ControlWordBug, TakeBackFromRunning) {
    expect("two clients in the lane", {.take_back = take_at_once<State::kRunning>});
}
TEST(ControlWordBug, TakeBackFromBoundary) { expect("unknown holder", {.take_back = take_at_once<State::kBoundary>}); }
TEST(ControlWordBug, HelperDoesNotLookFirst) {
    expect("another's work in flight", {.helper_looks = false, .asked_again = {true, false}});
}

// ------------------------------------------------------------------------------------------------------- the packing

TEST(ControlWord, PacksAndUnpacks) {
    std::size_t different = 0;
    for (std::uint32_t i = 0; i < 6 << 20; ++i) {
        const auto bit = [i](int n) { return (i >> n & 1) != 0; };
        Word w{static_cast<State>(i >> 20), bit(16), bit(17), bit(18), bit(19), static_cast<std::uint16_t>(i)};
        for (const std::uint32_t epoch : {0u, 1u, 0x8000'0000u, UINT32_MAX}) {
            w.epoch = epoch;
            different += unpack(pack(w)) != w;
        }
    }
    EXPECT_EQ(different, 0u);
}

TEST(ControlWord, GarbageUnpacksAndStaysWithinTheStates) {
    static_assert(unpack(UINT64_MAX).state == State::kFree);
    std::mt19937_64 random(1);
    for (int i = 0; i < 100'000; ++i) {
        const Word w = unpack(random());
        ASSERT_LE(w.state, State::kRevoked);
        for (const Word& next : {w, begin(w).next, leave(w).value_or(Leave{w}).next, settle(w, false, true).next,
                                 acknowledge(w).value_or(w), grant(w).value_or(w), take_back(w, true).next}) {
            ASSERT_EQ(unpack(pack(next)), next);
        }
    }
}

TEST(ControlWord, CountsNoFurtherThanItCan) {
    const Word full{.state = State::kRunning, .inside = UINT16_MAX};
    EXPECT_FALSE(begin(full).entered);
    EXPECT_EQ(begin(full).next.inside, UINT16_MAX);
    EXPECT_FALSE(leave({.state = State::kRunning}));
    EXPECT_FALSE(leave({.state = State::kBoundary, .inside = 1}));
}

}  // namespace
}  // namespace salus::control
