// What `salus ps`, `status`, `top` and `run` say of the service's status, which is JSON (service/commands.cpp).
//
// Pure: JSON in, text out. The service may be of another version, and a job may only be starting: a field that is missing,
// or not what it should be, shows as "-".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace salus::cli {

// ------------------------------------------------------------------------------------------------------------ fields

std::optional<double> number_in(const nlohmann::json& object, const char* key);
std::optional<Bytes> bytes_in(const nlohmann::json& object, const char* key);
/// Printable; empty if there is none.
std::string text_in(const nlohmann::json& object, const char* key);
bool flag_in(const nlohmann::json& object, const char* key);
/// The object or array of that name, or null, which is empty.
const nlohmann::json& part_of(const nlohmann::json& object, const char* key);

/// "resnet50 (job 3)".
std::string job_text(const std::string& name, std::optional<double> job);
/// The same for who holds a lane; empty: nobody.
std::string holder_text(const nlohmann::json& status, const nlohmann::json& lane);

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
Rate average_rate(const nlohmann::json& job);

/// Since the snapshot before the last: what changes from one look to the next.
class Rates {
public:
    void update(const nlohmann::json& status);

    /// Of a job in the last snapshot.
    Rate of(const nlohmann::json& job) const;
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
    struct Job {
        Gauge iterations;
        Gauge busy;
    };
    using Key = std::array<std::int64_t, 3>;
    static Key key_of(const nlohmann::json& job);

    std::optional<double> last_s_;
    Gauge turns_;
    Gauge switches_;
    std::map<Key, Job> jobs_;
};

/// Why it does not run, as what would follow its name: "waits for its turn, after resnet50 (job 3)". Empty: it does run,
/// or wants nothing.
std::string wait_text(const nlohmann::json& job);

/// A job's line in ps and top.
struct JobCells {
    std::string job, name, state, lane, rate, left, share, persistent, ephemeral, waited, pid;
    std::string iterations;  ///< "12/100"; "12/~100" if 100 is what an earlier run took
    std::string why;         ///< wait_text(), and for how long if that is long
};
JobCells cells_of(const nlohmann::json& job, const Rate& rate);

// ------------------------------------------------------------------------------------------------------------- texts

/// One line for each job, or "no jobs".
std::string format_ps(const nlohmann::json& status);
/// A few lines about the service.
std::string format_status(const nlohmann::json& status);

}  // namespace salus::cli
