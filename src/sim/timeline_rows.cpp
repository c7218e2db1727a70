#include "sim/timeline_rows.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "base/check.h"

namespace salus::sim {
namespace {

void sort_by_start(std::vector<TimelineTurn>& turns) { std::ranges::stable_sort(turns, {}, &TimelineTurn::start); }

}  // namespace

std::vector<TimelineRow> rows_by_lane(const Panel& panel, std::span<const SimulatedJob> jobs) {
    std::vector<Segment> segments;
    std::unordered_map<LaneId, Instant> lane_ends;
    for (const Segment& s : panel.segments) {
        SALUS_CHECK(index_of(s.client) < jobs.size(), "a segment is of one of the jobs");
        if (s.end <= s.start) continue;
        segments.push_back(s);
        Instant& end = lane_ends.try_emplace(s.lane, s.end).first->second;
        end = std::max(end, s.end);
    }
    std::stable_sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) { return a.start < b.start; });

    struct Row {
        Instant taken_until;          ///< until when a lane has the row
        Instant busy_until;           ///< until when a segment fills it
        std::vector<Instant> starts;  ///< of the segments of its lanes, in order
    };
    std::vector<Row> rows;
    const auto lowest = [&](const auto& is_free) {
        const auto found = std::find_if(rows.begin(), rows.end(), is_free);
        const auto index = static_cast<std::size_t>(found - rows.begin());
        if (found == rows.end()) rows.emplace_back();
        return index;
    };

    std::unordered_map<LaneId, std::size_t> row_of;
    for (const Segment& s : segments) {
        if (s.lane == kNoLane) continue;
        const auto [row, opened] = row_of.try_emplace(s.lane, 0);
        if (opened) {
            row->second = lowest([&](const Row& r) { return r.taken_until <= s.start; });
            rows[row->second].taken_until = lane_ends.at(s.lane);
        }
        rows[row->second].starts.push_back(s.start);
    }
    std::vector<TimelineRow> layout(1);
    std::unordered_map<std::size_t, std::map<Instant, std::size_t>> rows_of_job;  // from when on it ran in which row
    for (const Segment& s : segments) {
        const auto is_free = [&](const Row& r) {
            const auto next = std::lower_bound(r.starts.begin(), r.starts.end(), s.start);
            return r.busy_until <= s.start && (next == r.starts.end() || *next >= s.end);
        };
        const std::size_t row = s.lane == kNoLane ? lowest(is_free) : row_of.at(s.lane);
        rows[row].busy_until = s.end;
        if (layout.size() < rows.size()) layout.resize(rows.size());
        layout[row].turns.push_back({index_of(s.client), s.start, s.end, s.lane == kNoLane});
        if (s.lane != kNoLane && !panel.answering.requests.empty()) rows_of_job[index_of(s.client)].emplace(s.start, row);
    }
    for (const Answering::Request& request : panel.answering.requests) {
        SALUS_CHECK(request.job < jobs.size(), "a request is to one of the jobs");
        const auto& ran = rows_of_job[request.job];
        const auto next = ran.upper_bound(request.end);
        const std::size_t row = ran.empty() ? 0 : (next == ran.begin() ? next : std::prev(next))->second;
        if (request.end > request.start) layout[row].requests.push_back({request.job, request.start, request.end});
    }
    for (std::size_t i = 0; i < layout.size(); ++i) {
        layout[i].name = "lane " + std::to_string(i + 1);
        sort_by_start(layout[i].requests);
    }
    return layout;
}

std::vector<TimelineRow> rows_by_job(const Panel& panel, std::span<const SimulatedJob> jobs) {
    std::map<std::size_t, TimelineRow> rows;
    for (const Presence& there : panel.presences) {
        SALUS_CHECK(there.job < jobs.size(), "a presence is of one of the jobs");
        if (there.end > there.start) rows[there.job].presence = TimelineTurn{there.job, there.start, there.end};
    }
    for (const Segment& s : panel.segments) {
        SALUS_CHECK(index_of(s.client) < jobs.size(), "a segment is of one of the jobs");
        if (s.end <= s.start) continue;
        rows[index_of(s.client)].turns.push_back({index_of(s.client), s.start, s.end, s.lane == kNoLane});
    }
    for (const Answering::Request& request : panel.answering.requests) {
        SALUS_CHECK(request.job < jobs.size(), "a request is to one of the jobs");
        if (request.end > request.start) rows[request.job].requests.push_back({request.job, request.start, request.end});
    }
    std::vector<TimelineRow> out;
    for (auto& [job, row] : rows) {
        row.name = jobs[job].name;
        sort_by_start(row.turns);
        sort_by_start(row.requests);
        out.push_back(std::move(row));
    }
    if (out.empty()) out.emplace_back();
    return out;
}

}  // namespace salus::sim
