// A timeline of one or several runs: who ran when, and in which lane; requests in flight, and closed gates.
//
// Pure: returns strings. Names are UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/answering.h"
#include "sim/simulated_job.h"
#include "sim/simulation.h"

namespace salus::sim {

/// Collects who ran when. Turns of one client that follow each other in a lane (at most 1 ms apart) become one segment.
class TimelineRecorder : public Observer {
public:
    void ran(const Segment& segment) override;
    void after_event(const Event& event, Instant now, std::span<const Action> actions, const Simulation&) override;

    const std::vector<Segment>& segments() const { return segments_; }
    Answering answering(Instant end) const { return answering_.until(end); }

private:
    AnsweringRecorder answering_;
    std::vector<Segment> segments_;
    std::unordered_map<LaneId, std::size_t> last_in_lane_;  ///< index into segments_
};

/// From when to when a job was there.
struct Presence {
    std::size_t job = 0;
    Instant start;
    Instant end;
};

/// One run, usually one policy. Segments may come in any order; client i is job i.
struct Panel {
    std::string title;
    std::vector<Segment> segments;
    Answering answering = {};
    std::vector<Presence> presences = {};
};

/// What is left of it from `start` on, which becomes time 0.
Panel since(const Panel& panel, Instant start);

struct TimelineOptions {
    bool by_job = false;                     ///< a row for each job, not for each lane
    std::optional<double> starts_at_s = {};  ///< what a clock on the wall says at time 0, in seconds since midnight
};

// Note [Rows]
// Lanes come and go and their ids are never reused, so neither picture can have one band per lane. A lane takes the lowest
// free row and keeps it from its first segment to its last. A profiling turn has no lane: it goes to the lowest row in which
// nothing runs meanwhile, which may be the pause of a lane. A request is in a strip below the row of the lane that its
// client last had when it ended, or else has first. Closed gates have a row of their own.

/// The panels one below the other on a common time axis, 1200 px wide, with a band for each row and a colour for each job,
/// which the legend names, or its row.
/// Turns too short for a rectangle of their own become stacks of their jobs' shares of the time. So the picture stays
/// readable and small (about 100 kB for each panel) however often a policy switches.
/// REQUIRES: every segment's client is one of `jobs`, and so is every request's job.
std::string timeline_svg(std::span<const Panel> panels, std::span<const SimulatedJob> jobs,
                         const TimelineOptions& options = {});

/// All segments as Chrome trace events, for Perfetto or chrome://tracing: a process for each panel, a thread for each row,
/// for each job's requests, and for the gates. REQUIRES: the same.
std::string timeline_chrome_json(std::span<const Panel> panels, std::span<const SimulatedJob> jobs);

}  // namespace salus::sim
