// What `salus ps`, `status`, `top` and `run` say of the service's status. Pure: structs in, text out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "status/status.h"

namespace salus::cli {

/// "resnet50 (job 3)". Job 0 is not known.
std::string job_text(const std::string& name, std::uint32_t job);
/// The same for who holds a lane; empty: nobody.
std::string holder_text(const Status& status, const LaneStatus& lane);

/// "8.5 s", "12m 05s", "3h 07m", "2d 4h".
std::string format_seconds(double seconds);
/// Three digits or so: "0.042", "4.20", "42.0", "420".
std::string format_rate(double per_s);

// -------------------------------------------------------------------------------------------------------------- jobs

/// How fast a job goes; nothing: it cannot be told (yet).
struct Rate {
    std::optional<double> iterations_per_s;
    std::optional<double> share;  ///< of time, that it was in its iterations: 0 to 1
};

/// Since it was attached.
Rate average_rate(const JobStatus& job);

/// Since the snapshot before the last: what changes from one look to the next.
class Rates {
public:
    void update(const Status& status);

    /// Of a job in the last snapshot.
    Rate of(const JobStatus& job) const;
    std::optional<double> turns_per_s() const { return turns_.per_s; }
    std::optional<double> switches_per_s() const { return switches_.per_s; }

private:
    /// A count that only grows, and how fast it grew when it last did.
    struct Gauge {
        double at_s = 0;
        double value = 0;
        std::optional<double> per_s;

        void read(double now_s, double now_value, bool late = false);
    };
    struct Gauges {
        Gauge iterations;
        Gauge busy;
    };
    using Key = std::array<std::int64_t, 3>;
    static Key key_of(const JobStatus& job);

    std::optional<double> last_s_;
    Gauge turns_;
    Gauge switches_;
    std::map<Key, Gauges> jobs_;
};

/// Why it does not run, as what would follow its name: "waits for its turn, after resnet50 (job 3)". Empty: it does run,
/// or wants nothing.
std::string wait_text(JobState state, const Wait& wait);

/// A job's line in ps and top. "-" stands for what is not known.
struct JobCells {
    std::string job, name, state, lane, rate, left, share, persistent, ephemeral, waited, pid;
    std::string iterations;  ///< "12/100"; "12/~100" if 100 is what an earlier run took
    std::string why;         ///< wait_text(), and for how long if that is long
};
JobCells cells_of(const JobStatus& job, const Rate& rate);

// ------------------------------------------------------------------------------------------------------------- texts

/// One line for each job, or "no jobs".
std::string format_ps(const Status& status);
/// A few lines about the service.
std::string format_status(const Status& status);

}  // namespace salus::cli
