// The service's shell over the simulated world, one step at a time.
#include "sim/world.h"

#include <memory>

#include <gtest/gtest.h>

#include "policies/table.h"
#include "shell/shell.h"

namespace salus::sim {
namespace {

TEST(ShellOverWorld, WhatAProcessUsesBesideManagedMemoryFallsWhenThatIsSeenTwice) {
    World world(gibibytes(16), /*is_gpu=*/true, /*clients=*/1, [](const Event&, Instant, std::span<const Action>) {});
    world.set_others(Bytes{});
    SimulatedClient& client = world.clients.front();
    client.phase = SimulatedClient::Phase::kOnHost;
    client.context = mebibytes(600);

    shell::Settings settings;
    settings.engine.capacity = gibibytes(16);
    settings.policy = find_policy("fair");
    settings.fallback = &fallback_policy();
    shell::Shell shell(settings, world.ports());
    auto joining = std::make_unique<shell::Session>();
    joining->id = ClientId{0};
    joining->process = World::process_of(ClientId{0});
    joining->connection = world.connect(ClientId{0});
    joining->page = client.page;
    const Result<shell::Session*> attached = shell.attach(std::move(joining), {});
    ASSERT_TRUE(attached.ok()) << attached.error();
    const shell::Session& session = *attached.value();

    struct Row {
        int seen_mib;
        int counts_mib;
    } rows[] = {{600, 600}, {50, 600}, {600, 600}, {700, 700}, {200, 700}, {200, 200}};
    for (const Row& row : rows) {
        client.context = mebibytes(row.seen_mib);
        shell.look_at_usage();
        EXPECT_EQ(session.overhead, mebibytes(row.counts_mib)) << "seen: " << row.seen_mib;
    }
}

}  // namespace
}  // namespace salus::sim
