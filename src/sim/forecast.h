// What the jobs of a live service may expect under each policy: the simulator, started from the service's status.
//
// Pure: a status in, expected ends out. docs/simulator.md says what is taken for granted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/policy.h"
#include "status/status.h"

namespace salus::sim {

/// What part a job has in a forecast.
enum class Outlook : std::uint8_t {
    kStated,  ///< it has said how long it is
    kPast,    ///< as long as an earlier run of its command
    kRunsOn,  ///< its length is not known: it is taken to run on
    kNew,     ///< it has run no more than its first iterations, which say little about the others: left out
    kAside,   ///< it takes no turns now (paused, unshared): left out
};
/// As in the JSON: "stated", "history", "runs-on", "new", "aside".
std::string_view name_of(Outlook outlook);
constexpr bool has_length(Outlook outlook) { return outlook == Outlook::kStated || outlook == Outlook::kPast; }

struct Forecast {
    struct Job {
        std::uint32_t job = 0;
        std::string name;
        UserId user = kNoUser;
        JobState state = JobState::kUnknown;
        Outlook outlook = Outlook::kNew;
        /// Time until its end under each policy. Nothing: no length is known, or others keep it from ending.
        std::vector<std::optional<Duration>> left;
    };
    /// Over the jobs whose length is known. Nothing: there are none, or some do not end.
    struct Summary {
        std::string policy;
        std::optional<Duration> mean;
        std::optional<Duration> last;
    };
    std::string policy;  ///< of the service now
    std::vector<Summary> policies;
    std::vector<Job> jobs;  ///< in order of their numbers
};

/// `policies` must outlive the call only.
Forecast forecast(const Status& status, std::span<const Policy* const> policies);

}  // namespace salus::sim
