#include "core/ledger.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"
#include "core/engine_fixture.h"

namespace salus {
namespace {

class LedgerTest : public CheckedTest {
protected:
    void reserve(Client& client, std::int64_t mib) { ledger.set_reserved(client, mebibytes(mib), Instant{}); }
    void observe(Client& client, std::int64_t mib) { ledger.set_observed(client, mebibytes(mib)); }
    void set_capacity(std::int64_t mib) { ledger.set_capacity(mebibytes(mib)); }

    Clients clients;
    Lanes lanes;
    Ledger ledger{mebibytes(100), clients, lanes};
    Client& a = clients.add(ClientId{0});
    Client& b = clients.add(ClientId{1});
};

TEST_F(LedgerTest, ReservationsLanesAndDebtsAreNotFree) {
    reserve(a, 30);
    lanes.open(UserId{}, mebibytes(20));
    EXPECT_EQ(in_mib(ledger.reserved()), 50);
    EXPECT_EQ(in_mib(ledger.free()), 50);
    observe(a, 25);
    EXPECT_EQ(in_mib(ledger.debts()), 0) << "less than it reserved";
    EXPECT_FALSE(ledger.in_debt());

    observe(a, 40);
    EXPECT_EQ(in_mib(a.debt()), 10);
    EXPECT_EQ(in_mib(ledger.free()), 40);
    EXPECT_TRUE(ledger.in_debt());
    reserve(a, 40);
    EXPECT_FALSE(ledger.in_debt()) << "a debt is repaid by reserving what is used";
    EXPECT_EQ(in_mib(ledger.free()), 40);

    observe(b, 55);
    EXPECT_EQ(in_mib(ledger.overdrawn()), 15);
    EXPECT_EQ(in_mib(ledger.free()), 0) << "never negative";
    ledger.clear(b, Instant{});
    EXPECT_EQ(in_mib(ledger.overdrawn()), 0);
    EXPECT_EQ(in_mib(ledger.debts()), 0);
}

TEST_F(LedgerTest, OfAClientThatIsBeingPagedOutTheRestDoesNotCome) {
    reserve(a, 50);
    observe(a, 60);
    a.rest = mebibytes(20);
    a.move_residency(Residency::kResident, Instant{});
    a.move_residency(Residency::kPagingOut, Instant{});
    EXPECT_EQ(in_mib(ledger.coming()), 40);
    a.rest = mebibytes(70);
    EXPECT_EQ(in_mib(ledger.coming()), 0);
}

TEST_F(LedgerTest, NoEventEndsWithMoreReservedThanThereIs) {
    reserve(a, 100);
    ledger.settle();
    reserve(b, 1);
    EXPECT_THROW(ledger.settle(), CheckFailure);
    EXPECT_THROW(reserve(b, -1), CheckFailure);
    EXPECT_THROW(observe(b, -1), CheckFailure);
}

TEST_F(LedgerTest, AFallOfTheCapacityIsWorkedOff) {
    reserve(a, 60);
    reserve(b, 30);
    set_capacity(50);
    ledger.settle();
    EXPECT_TRUE(ledger.in_debt());
    EXPECT_EQ(in_mib(ledger.overdrawn()), 40);
    EXPECT_EQ(in_mib(ledger.largest_capacity()), 100);

    reserve(b, 10);
    ledger.settle();
    reserve(b, 11);
    EXPECT_THROW(ledger.settle(), CheckFailure) << "what was given back is not reserved again";
    reserve(b, 0);
    reserve(a, 50);
    ledger.settle();
    EXPECT_FALSE(ledger.in_debt());
    set_capacity(120);
    EXPECT_EQ(in_mib(ledger.largest_capacity()), 120);
    EXPECT_EQ(in_mib(ledger.free()), 70);
}

TEST_F(LedgerTest, WhatIsPagedOutOrUnmappedIsComingUnlessItsClientIsStopped) {
    a.move_residency(Residency::kResident, Instant{});
    reserve(a, 10);
    observe(a, 12);
    EXPECT_EQ(in_mib(ledger.coming()), 0);
    a.move_residency(Residency::kPagingOut, Instant{});
    EXPECT_EQ(in_mib(ledger.coming()), 12);

    const LaneId lane = lanes.open(UserId{}, mebibytes(30));
    lanes.join(lane, b.facts.id, mebibytes(5));
    lanes.resize(lane, mebibytes(8));
    EXPECT_EQ(in_mib(ledger.coming()), 12 + 22);
    b.stopped = true;
    EXPECT_EQ(in_mib(ledger.coming()), 12);
    a.stopped = true;
    EXPECT_EQ(in_mib(ledger.coming()), 0);
}

TEST_F(LedgerTest, MemoryTimeIsCountedWhenAReservationChanges) {
    ledger.set_reserved(a, gibibytes(2), Instant{} + seconds(10));
    EXPECT_EQ(a.memory_time_gib_s, 0);
    ledger.set_reserved(a, gibibytes(1), Instant{} + seconds(13));
    EXPECT_EQ(a.memory_time_gib_s, 6);
    ledger.clear(a, Instant{} + seconds(20));
    EXPECT_EQ(a.memory_time_gib_s, 13);
}

TEST_F(LedgerTest, AnAuditFindsAWrongCharge) {
    const LaneId lane = lanes.open(UserId{}, mebibytes(30));
    ledger.audit();
    lanes.at(lane).charge += mebibytes(1);
    EXPECT_THROW(ledger.audit(), CheckFailure);
}

// The equations of ledger.h, over random sequences of operations.

class LedgerWalk {
public:
    explicit LedgerWalk(std::uint64_t seed) : random_(seed) {}

    void step() {
        Client& client = any_client();
        const Instant now{};
        switch (random_.below(9)) {
            case 0: ledger_.set_reserved(client, upto(30), now); break;
            case 1: ledger_.set_observed(client, upto(30)); break;
            case 2: ledger_.clear(client, now); break;
            case 3: set_capacity(upto(100)); break;
            case 4: client.stopped = !client.stopped; break;
            case 5: move(client); break;
            case 6: change_lanes(client); break;
            case 7: acknowledge(client); break;
            default: replace(client); break;
        }
    }

    void compare() {
        const Bytes persistent = sum([](const Client& c) { return c.reserved(); });
        const Bytes debts = sum([](const Client& c) { return std::max(c.observed() - c.reserved(), Bytes{}); });
        Bytes charges;
        Bytes coming = sum([](const Client& c) {
            const bool leaves = c.residency() == Residency::kPagingOut && !c.stopped;
            return leaves ? std::max(c.reserved(), c.observed()) : Bytes{};
        });
        for (const Lane& lane : lanes_.all()) {
            charges += lane.charge;
            Bytes stays = lane.size;
            for (const Mapping& m : lane.mappings) {
                if (clients_.at(m.client).stopped) stays = std::max(stays, m.mapped);
            }
            coming += lane.charge - stays;
        }
        const Bytes used = persistent + charges + debts;
        EXPECT_EQ(ledger_.persistent(), persistent);
        EXPECT_EQ(ledger_.debts(), debts);
        EXPECT_EQ(ledger_.reserved(), persistent + charges);
        EXPECT_EQ(ledger_.free(), std::max(ledger_.capacity() - used, Bytes{}));
        EXPECT_EQ(ledger_.overdrawn(), std::max(used - ledger_.capacity(), Bytes{}));
        EXPECT_EQ(ledger_.in_debt(), debts > Bytes{} || persistent + charges > ledger_.capacity());
        EXPECT_EQ(ledger_.coming(), coming);
        EXPECT_NO_THROW(ledger_.audit());
        settle();
    }

    bool both_ends_came() const { return refused_ > 0 && worked_off_ > 0; }

private:
    Bytes upto(std::int64_t high) { return {random_.integer(0, high)}; }
    Client& any_client() {
        if (clients_.all().size() < 4) return clients_.add(ClientId{next_id_++});
        return *clients_.all()[random_.below(clients_.all().size())];
    }
    template <typename Amount>
    Bytes sum(const Amount& amount) const {
        Bytes total;
        for (const Client* client : clients_.all()) total += amount(*client);
        return total;
    }

    void set_capacity(Bytes capacity) {
        ledger_.set_capacity(capacity);
        limit_ = std::max(capacity, ledger_.reserved());
    }

    /// A change that nobody may make is refused, and undone.
    void settle() {
        if (ledger_.reserved() > limit_) {
            EXPECT_THROW(ledger_.settle(), CheckFailure);
            ++refused_;
            return set_capacity(ledger_.reserved());
        }
        EXPECT_NO_THROW(ledger_.settle());
        const Bytes lowered = std::max(ledger_.capacity(), ledger_.reserved());
        if (lowered < limit_) ++worked_off_;
        limit_ = std::min(limit_, lowered);
    }

    void move(Client& client) {
        const Residency to{static_cast<std::uint8_t>(random_.below(5))};
        if (may_move(client.residency(), to)) client.move_residency(to, Instant{});
    }

    void change_lanes(Client& client) {
        if (lanes_.all().size() < 3) lanes_.open(UserId{}, upto(20));
        Lane& lane = lanes_.all()[random_.below(lanes_.all().size())];
        const Mapping* mapping = lane.mapping(client.facts.id);
        if (!mapping) lanes_.join(lane.id, client.facts.id, Bytes{});
        else if (mapping->member && random_.chance(0.3)) lanes_.part(lane.id, client.facts.id);
        else lanes_.resize(lane.id, upto(20));
    }

    void acknowledge(const Client& client) {
        for (const Lane& lane : lanes_.all()) {
            const Mapping* mapping = lane.mapping(client.facts.id);
            if (mapping) lanes_.acknowledge(lane.id, client.facts.id, mapping->version);
        }
    }

    /// The engine clears a client before it removes it.
    void replace(Client& client) {
        lanes_.forget(client.facts.id);
        lanes_.close_empty();
        ledger_.clear(client, Instant{});
        clients_.remove(client.facts.id);
    }

    Random random_;
    Clients clients_;
    Lanes lanes_;
    Ledger ledger_{Bytes{100}, clients_, lanes_};
    Bytes limit_{100};
    std::uint32_t next_id_ = 0;
    int refused_ = 0;
    int worked_off_ = 0;
};

TEST_F(LedgerTest, KeepsItsEquations) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        LedgerWalk walk(seed);
        for (int i = 0; i < 400; ++i) {
            SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(i));
            walk.step();
            walk.compare();
            if (HasFailure()) return;
        }
        EXPECT_TRUE(walk.both_ends_came());
    }
}

}  // namespace
}  // namespace salus
