#include "core/client.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "core/engine_fixture.h"

namespace salus {
namespace {

constexpr Instant kBefore{1000};
constexpr Instant kMoved{2000};

// The first moves of a client that bring it into each state.
const std::map<Turn, std::vector<Turn>> kWaysToTurn = {
    {Turn::kParked, {}},
    {Turn::kReady, {Turn::kReady}},
    {Turn::kRunning, {Turn::kReady, Turn::kRunning}},
    {Turn::kHoldingIdle, {Turn::kReady, Turn::kRunning, Turn::kHoldingIdle}},
};
using enum Residency;
const std::map<Residency, std::vector<Residency>> kWaysToResidency = {
    {kAbsent, {}},
    {kResident, {kResident}},
    {kPagingOut, {kResident, kPagingOut}},
    {kPaged, {kResident, kPagingOut, kPaged}},
    {kPagingIn, {kResident, kPagingOut, kPaged, kPagingIn}},
};

Client client_with(Turn turn) {
    Client client;
    for (const Turn step : kWaysToTurn.at(turn)) client.move_turn(step, kBefore);
    return client;
}

Client client_with(Residency residency) {
    Client client;
    for (const Residency step : kWaysToResidency.at(residency)) client.move_residency(step, kBefore);
    return client;
}

using ClientMoves = CheckedTest;

TEST_F(ClientMoves, TurnsMoveAlongTheirDiagram) {
    // A row is the state before, a column the state after.
    constexpr std::array<std::array<bool, 4>, 4> kAllowed = {{
        //  parked ready running idle
        {{false, true, false, false}},  // parked
        {{true, false, true, false}},   // ready
        {{true, false, false, true}},   // running
        {{true, false, true, false}},   // holding idle
    }};
    for (std::size_t row = 0; row < 4; ++row) {
        for (std::size_t column = 0; column < 4; ++column) {
            SCOPED_TRACE(std::to_string(row) + " to " + std::to_string(column));
            const Turn from{static_cast<std::uint8_t>(row)};
            const Turn to{static_cast<std::uint8_t>(column)};
            EXPECT_EQ(may_move(from, to), kAllowed[row][column]);
            Client client = client_with(from);
            ASSERT_EQ(client.turn(), from);
            if (kAllowed[row][column]) client.move_turn(to, kMoved);
            else EXPECT_THROW(client.move_turn(to, kMoved), CheckFailure);
            EXPECT_EQ(client.turn(), kAllowed[row][column] ? to : from);
        }
    }
}

TEST_F(ClientMoves, MemoryMovesAlongItsDiagram) {
    constexpr std::array<std::array<bool, 5>, 5> kAllowed = {{
        // absent resident paging-out paged paging-in
        {{false, true, false, false, false}},  // absent
        {{false, false, true, false, false}},  // resident
        {{false, true, false, true, false}},   // paging out
        {{false, false, false, false, true}},  // paged
        {{false, true, false, false, false}},  // paging in
    }};
    for (std::size_t row = 0; row < 5; ++row) {
        for (std::size_t column = 0; column < 5; ++column) {
            SCOPED_TRACE(std::to_string(row) + " to " + std::to_string(column));
            const Residency from{static_cast<std::uint8_t>(row)};
            const Residency to{static_cast<std::uint8_t>(column)};
            EXPECT_EQ(may_move(from, to), kAllowed[row][column]);
            Client client = client_with(from);
            ASSERT_EQ(client.residency(), from);
            if (kAllowed[row][column]) client.move_residency(to, kMoved);
            else EXPECT_THROW(client.move_residency(to, kMoved), CheckFailure);
            EXPECT_EQ(client.residency(), kAllowed[row][column] ? to : from);
        }
    }
}

TEST_F(ClientMoves, TurnsNoteWhenTheyMoved) {
    struct Row {
        Turn from;
        Turn to;
        bool waits;
        bool granted;
        bool charged;
        bool idles;
    };
    const Row rows[] = {
        {Turn::kParked, Turn::kReady, true, false, false, false},
        {Turn::kReady, Turn::kRunning, false, true, true, false},
        {Turn::kReady, Turn::kParked, false, false, false, true},
        {Turn::kRunning, Turn::kHoldingIdle, false, false, false, true},
        {Turn::kRunning, Turn::kParked, false, false, false, true},
        {Turn::kHoldingIdle, Turn::kRunning, false, false, true, false},  // the turn of that grant goes on
        {Turn::kHoldingIdle, Turn::kParked, false, false, false, false},  // it has idled since before
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(std::to_string(static_cast<int>(row.from)) + " to " + std::to_string(static_cast<int>(row.to)));
        Client client = client_with(row.from);
        client.move_turn(row.to, kMoved);
        EXPECT_EQ(client.waits_since == kMoved, row.waits);
        EXPECT_EQ(client.granted_at == kMoved, row.granted);
        EXPECT_EQ(client.charged_until == kMoved, row.charged);
        EXPECT_EQ(client.idle_since == kMoved, row.idles);
    }
}

TEST_F(ClientMoves, AStayOnTheDeviceBeginsWhenTheMemoryIsThere) {
    struct Row {
        Residency from;
        Residency to;
        bool begins;
    };
    const Row rows[] = {
        {kAbsent, kResident, true},     {kPagingIn, kResident, true}, {kPagingOut, kResident, false},  // it never went
        {kResident, kPagingOut, false}, {kPaged, kPagingIn, false},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(std::to_string(static_cast<int>(row.from)) + " to " + std::to_string(static_cast<int>(row.to)));
        Client client = client_with(row.from);
        client.move_residency(row.to, kMoved);
        EXPECT_EQ(client.resident_since == kMoved, row.begins);
    }
}

TEST_F(ClientMoves, ClientsAreFoundByIdAndListedInOrderOfAttachment) {
    Clients clients;
    EXPECT_EQ(clients.find(ClientId{7}), nullptr);
    Client& seventh = clients.add(ClientId{7});
    Client& third = clients.add(ClientId{3});
    EXPECT_EQ(seventh.facts.id, ClientId{7});
    EXPECT_EQ(&clients.at(ClientId{3}), &third);
    EXPECT_EQ(clients.find(ClientId{7}), &seventh);
    EXPECT_EQ(clients.find(ClientId{4}), nullptr);
    ASSERT_EQ(clients.all().size(), 2u);
    EXPECT_EQ(clients.all()[0], &seventh);
    EXPECT_EQ(clients.all()[1], &third);
    EXPECT_THROW(clients.add(ClientId{3}), CheckFailure);
    EXPECT_THROW(clients.add(kNoClient), CheckFailure);

    clients.remove(ClientId{7});
    EXPECT_EQ(clients.find(ClientId{7}), nullptr);
    EXPECT_EQ(clients.all().size(), 1u);
    EXPECT_EQ(&clients.add(ClientId{7}), clients.all()[1]) << "an id is free for reuse";
}

}  // namespace
}  // namespace salus
