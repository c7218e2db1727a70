#include "cli/top_history.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace salus::cli {
namespace {

constexpr std::size_t kStretchesMost = 600;
constexpr double kTurnsShown_s = 10;

}  // namespace

char sign_of(std::uint32_t job) {
    constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static_assert(kAll.size() == kSigns);
    return kAll[(job + kSigns - 1) % kSigns];
}

void TopHistory::update(const Status& status) {
    const double now_s = status.service.uptime.seconds();
    if (last_s_ && now_s < *last_s_) *this = {};  // a new service
    if (last_s_ == now_s) return;
    Stretch stretch{last_s_.value_or(now_s), now_s, {}, {}, static_cast<double>(devices_of(status.service).size())};
    std::map<std::pair<std::uint32_t, int>, double> busy_s;
    for (const JobStatus& row : status.jobs) {
        if (!row.activity) continue;
        if (row.gpu_number) stretch.gpu[row.job] = *row.gpu_number;
        const auto key = std::pair(row.job, row.pid);
        busy_s[key] = row.activity->busy.seconds();
        const auto before = busy_s_.find(key);
        if (before == busy_s_.end()) continue;
        if (const double more_s = busy_s[key] - before->second; more_s > 0)
            stretch.busy_s[row.job] += std::min(more_s, stretch.length_s());
    }
    busy_s_ = std::move(busy_s);
    if (std::exchange(last_s_, now_s)) stretches_.push_back(std::move(stretch));
    if (stretches_.size() > kStretchesMost) stretches_.pop_front();
}

std::vector<double> TopHistory::use(std::size_t count) const {
    std::vector<double> shares;
    for (std::size_t i = stretches_.size() - std::min(count, stretches_.size()); i < stretches_.size(); ++i) {
        double busy_s = 0;
        for (const auto& [job, time_s] : stretches_[i].busy_s) busy_s += time_s;
        shares.push_back(std::min(busy_s / (stretches_[i].length_s() * stretches_[i].devices), 1.0));
    }
    return shares;
}

std::string TopHistory::turns(std::size_t width, std::optional<unsigned> gpu) const {
    std::string signs(width, ' ');
    if (!last_s_) return signs;
    const auto column_of = [&](double at_s) {
        const double share = std::clamp((at_s - (*last_s_ - kTurnsShown_s)) / kTurnsShown_s, 0.0, 1.0);
        return static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    };
    for (const Stretch& stretch : stretches_) {
        const auto counts = [&](std::uint32_t job) {
            const auto known = stretch.gpu.find(job);
            return !gpu || (known != stretch.gpu.end() && known->second == *gpu);
        };
        double busy_s = 0;
        for (const auto& [job, time_s] : stretch.busy_s) busy_s += counts(job) ? time_s : 0;
        // Jobs that run beside each other have more time together than there is.
        const double scale = busy_s > stretch.length_s() ? stretch.length_s() / busy_s : 1;
        double at_s = stretch.from_s;
        for (const auto& [job, time_s] : stretch.busy_s) {
            if (!counts(job)) continue;
            const std::size_t from = column_of(at_s);
            at_s += time_s * scale;
            std::fill(signs.begin() + static_cast<std::ptrdiff_t>(from),
                      signs.begin() + static_cast<std::ptrdiff_t>(column_of(at_s)), sign_of(job));
        }
    }
    return signs;
}

}  // namespace salus::cli
