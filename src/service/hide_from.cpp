#include "service/hide_from.h"

#include <algorithm>

namespace salus::service {

namespace {

/// A user, or a group, may have a limit of its own.
void hide_limit_in(Wait& wait) {
    wait.user_jobs_max = 0;
    wait.user_memory_max = {};
}

}  // namespace

void hide_from(unsigned uid, Status& status, bool only_numbers) {
    if (uid == 0) return;
    const UserId viewer{uid};
    // A job that has left, or is not in the list, may be anybody's.
    const auto is_own = [&](std::uint32_t number) {
        return std::ranges::any_of(status.jobs,
                                   [&](const JobStatus& row) { return row.job == number && row.user == viewer; });
    };
    for (JobStatus& row : status.jobs) {
        if (!only_numbers) break;
        if (row.activity && row.activity->wait.behind && !is_own(row.activity->wait.behind->job))
            row.activity->wait.behind->name.clear();
        if (row.start_wait && row.start_wait->behind && !is_own(row.start_wait->behind->job))
            row.start_wait->behind->name.clear();
    }
    for (auto* rows : {&status.jobs, &status.ended}) {
        for (JobStatus& row : *rows) {
            if (row.user == viewer) continue;
            row.command.clear();
            row.log.clear();
            if (!only_numbers) continue;
            row.name.clear();
            row.why_unshared.clear();
            row.user = kNoUser;
            row.pid = 0;
            if (row.start_wait) hide_limit_in(*row.start_wait);
            if (row.activity) hide_limit_in(row.activity->wait);
        }
    }
    const auto hide_users = [&](DeviceStatus& device) {
        for (LaneStatus& lane : device.lanes) {
            if (only_numbers && lane.user != viewer) lane.user = kNoUser;
        }
    };
    hide_users(status.service);
    for (DeviceStatus& device : status.service.devices) hide_users(device);
}

}  // namespace salus::service
