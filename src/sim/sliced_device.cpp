#include "sim/sliced_device.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace salus::sim {
namespace {

/// Less than this is rounding.
constexpr double kNothingNs = 0.5;

/// At most a day later, which is long enough to look again.
Instant after(Instant at, double ns) {
    constexpr double kDayNs = 86400e9;
    return at + nanoseconds(static_cast<std::int64_t>(std::ceil(std::min(ns, kDayNs))));
}

/// Device time that the client launches in a nanosecond.
double launch_rate(const SlicedDevice::Work& work) { return work.host_ns > 0 ? work.not_launched_ns / work.host_ns : 0; }

void launch_for(SlicedDevice::Work& work, double ns) {
    const double launched = launch_rate(work) * std::min(ns, work.host_ns);
    const bool all = work.host_ns - ns < kNothingNs;
    work.launched_ns += all ? work.not_launched_ns : launched;
    work.not_launched_ns = all ? 0 : work.not_launched_ns - launched;
    work.host_ns = all ? 0 : work.host_ns - ns;
}

}  // namespace

SlicedDevice::SlicedDevice(Duration slice, Duration switch_cost) : slice_(slice), switch_cost_(switch_cost) {
    SALUS_CHECK(slice.ns > 0 && switch_cost.ns > 0, "slices and changes take time");
}

std::size_t SlicedDevice::find(ClientId id) const {
    const auto found = std::ranges::lower_bound(entries_, id, {}, &Entry::id);
    return static_cast<std::size_t>(found - entries_.begin());
}

void SlicedDevice::put(ClientId id, const Work& work) {
    const auto entry = entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(find(id)), {id, work});
    launch_for(entry->work, 0);  // all, if that takes no time
}

SlicedDevice::Work SlicedDevice::take(ClientId id) {
    const auto entry = entries_.begin() + static_cast<std::ptrdiff_t>(find(id));
    const Work left = entry->work;
    entries_.erase(entry);
    return left;
}

void SlicedDevice::hold(ClientId id, bool held) { entries_[find(id)].held = held; }

bool SlicedDevice::is_done(ClientId id) const { return entries_[find(id)].work.is_done(); }

/// Whom the device works for from now on. This is asked only when time passes: a client that ends an iteration and begins
/// the next one at once keeps its slice.
SlicedDevice::Slices SlicedDevice::decide() const {
    if (now_ < slices_.begin) return slices_;
    const std::size_t present = find(slices_.client);
    const bool is_here = present < entries_.size() && entries_[present].id == slices_.client;
    const bool slice_ends = (now_ - slices_.begin).ns % slice_.ns == 0 && now_ > slices_.begin;
    if (is_here && entries_[present].has_work() && !slice_ends) return slices_;
    for (std::size_t step = 0; step < entries_.size(); ++step) {
        const Entry& next = entries_[(present + (is_here ? 1 : 0) + step) % entries_.size()];
        if (next.id != slices_.client && next.wants()) return {next.id, now_ + switch_cost_};
    }
    return slices_;
}

Instant SlicedDevice::change_under(const Slices& slices) const {
    Instant change = now_ < slices.begin ? slices.begin : kNever;
    bool others_want = false;
    const Entry* served = nullptr;
    for (const Entry& entry : entries_) {
        if (entry.work.host_ns > 0) change = std::min(change, after(now_, entry.work.host_ns));
        if (entry.id == slices.client) served = &entry;
        else others_want = others_want || entry.wants();
    }
    if (now_ < slices.begin || !served || !served->has_work()) return change;
    const double catches_up = 1 - launch_rate(served->work);
    if (catches_up > 0) change = std::min(change, after(now_, served->work.launched_ns / catches_up));
    const std::int64_t begun = (now_ - slices.begin).ns / slice_.ns;
    return others_want ? std::min(change, slices.begin + slice_ * (begun + 1)) : change;
}

Instant SlicedDevice::next_change() const { return change_under(decide()); }

void SlicedDevice::advance(Instant now) {
    while (now_ < now) {
        slices_ = decide();
        const Instant until = std::min(now, change_under(slices_));
        pass(until - now_);
        now_ = until;
    }
}

/// REQUIRES: nothing changes within this time.
void SlicedDevice::pass(Duration time) {
    const double ns = static_cast<double>(time.ns);
    for (Entry& entry : entries_) {
        launch_for(entry.work, ns);
        if (entry.id != slices_.client || entry.held || now_ < slices_.begin) continue;
        entry.work.launched_ns -= ns;
        if (entry.work.launched_ns < kNothingNs) entry.work.launched_ns = 0;
    }
}

}  // namespace salus::sim
