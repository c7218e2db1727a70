#include "service/reload.h"

#include <gtest/gtest.h>

namespace salus::service {
namespace {

Options running() {
    Options options;
    options.configured_policy = options.policy;
    return options;
}

TEST(Reload, SaysWhatHasChangedAndWhatWillLater) {
    EXPECT_EQ(reload_from(running(), running()).line, "nothing has changed");
    Options read = running();
    read.configured_policy = read.policy = "las";
    read.lanes = 2;
    read.paging = false;
    read.capacity = gibibytes(3);
    read.min_turn = milliseconds(7);
    read.rehome_after = milliseconds(500);
    read.page_idle_after = seconds(60);
    read.connections_per_user = 9;
    read.log_level = LogLevel::kDebug;
    read.trace_limit = mebibytes(64);
    read.metrics = "[::1]:9464";
    read.job_mapping = "/jobs";
    read.placement = Packing::kPack;
    read.device = "host";
    read.mps = MpsMode::kOff;
    read.page_gpu = true;
    read.page_directory = "/pages";
    read.all_users = true;
    read.overlap = true;
    read.share_by_user = true;
    read.hides_others = true;
    read.user_limits.others = {.jobs = 3, .memory = gibibytes(1), .weight = 2.5, .priority = 7};
    read.user_limits.users[1000].jobs = 2;
    read.user_limits.groups[100].weight = 2;
    read.socket = "/other";
    read.state = "/other";
    const Reload reload = reload_from(running(), read);
    EXPECT_EQ(
        reload.line,
        "changed: policy las, lanes 2, paging off, capacity 3.0 GiB, min-turn-ms 7, rehome-after-s 0.5, page-idle-s 60, "
        "user-jobs-max 3, user-memory-max 1.0 GiB, user-weight-max 2.5, user-priority-max 7, limits of single users, limits "
        "of groups, placement pack, connections-per-user 9, log-level debug, trace-limit 64.0 MiB, metrics [::1]:9464, "
        "job-mapping-dir /jobs; needs a restart: device, page-gpu, page-dir, mps, users, overlap, share-by, show-others, "
        "socket, state");
    EXPECT_EQ(reload.options.user_limits.others.jobs, 3u);
    EXPECT_EQ(reload.options.user_limits.users.at(1000).jobs, 2u);
    EXPECT_EQ(reload.options.policy, "las");
    EXPECT_EQ(reload.options.lanes, 2u);
    EXPECT_EQ(reload.options.device, "auto");
    EXPECT_EQ(reload.options.mps, MpsMode::kAuto);
    EXPECT_FALSE(reload.options.all_users);
    EXPECT_EQ(reload.options.socket + reload.options.state, "");
    read.min_turn.reset();
    EXPECT_EQ(reload_from(reload.options, read).line,
              "changed: min-turn-ms by the cost of a switch; needs a restart: device, page-gpu, page-dir, mps, users, "
              "overlap, share-by, "
              "show-others, socket, state");
    read.user_limits.others.jobs = 0;
    read.user_limits.others.memory = {};
    EXPECT_TRUE(
        reload_from(reload.options, read)
            .line.starts_with("changed: min-turn-ms by the cost of a switch, no user-jobs-max, no user-memory-max; "));
}

TEST(Reload, APolicyThatWasSetStaysUntilAnotherIsConfigured) {
    Options now = running();
    now.policy = "srtf";
    Options read = running();
    read.policy = "srtf";  // as the file of the state directory says
    EXPECT_EQ(reload_from(now, read).options.policy, "srtf");
    EXPECT_EQ(reload_from(now, read).line, "nothing has changed");
    read.configured_policy = read.policy = "las";
    EXPECT_EQ(reload_from(now, read).options.policy, "las");
}

TEST(Reload, TheNextServiceTakesOverWhatThisOneWasGiven) {
    Options now = running();
    now.given = {{"lanes", "2"}};
    EXPECT_EQ(reload_from(now, running()).options.given, now.given);
}

}  // namespace
}  // namespace salus::service
