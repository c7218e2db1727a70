// What the user asks of salus-job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "job/memory_check.h"
#include "salus/salus.h"

namespace salus::job {

enum class Mode : std::uint8_t { kRun, kMeasure, kCalibrate, kHelp };
enum class Crash : std::uint8_t { kBefore, kDuring, kAfter };
enum class Hang : std::uint8_t { kIdle, kInside };

/// Iterations that --measure runs first and does not count.
inline constexpr int kWarmUp = 2;

/// Iterations are named by their number, which starts at `start_at`; a K that does not come up has no effect.
struct Options {
    Mode mode = Mode::kRun;
    std::string help;  ///< of kHelp: what to print
    std::string name;  ///< empty: not given

    Bytes persistent = mebibytes(64);
    Bytes persistent_block = mebibytes(16);
    Bytes ephemeral = mebibytes(256);
    Bytes block = mebibytes(32);
    salus_kind scratch_kind = SALUS_AUTO;
    Touch touch = Touch::kFull;
    std::optional<std::uint64_t> grow_at;
    Bytes grow_persistent;  ///< what it needs in all from `grow_at` on; zero: as before
    Bytes grow_ephemeral;
    std::uint64_t survive = 0;  ///< every so many iterations a scratch block outlives its own; 0: never

    std::uint64_t iterations = 100;
    std::uint64_t start_at = 0;
    std::uint64_t work = 10'000;  ///< units, in an iteration
    unsigned threads = 1;
    std::uint64_t seed = 1;
    Duration think;
    Duration startup;
    double rate = 0;  ///< requests a second; zero: training

    std::optional<std::uint64_t> fork_at;
    std::optional<std::uint64_t> crash_at;
    Crash crash = Crash::kDuring;
    std::optional<std::uint64_t> hang_at;
    Hang hang = Hang::kInside;

    bool alone = false;
    bool join = false;
    std::int32_t priority = 0;
    double weight = 0;
    double occupancy = 0;
    bool iterations_known = false;
    bool profile_known = false;

    std::string log;
    std::string report;
    bool quiet = false;

    bool inference() const { return rate > 0; }
    std::string shown_name() const { return name.empty() ? "salus-job" : name; }
    std::string speaker() const { return name.empty() ? "" : name + ": "; }  ///< begins a line of complaint
    bool grown(std::uint64_t iteration) const { return grow_at && iteration >= *grow_at; }
    Bytes persistent_in(std::uint64_t iteration) const {
        return grown(iteration) && grow_persistent > Bytes{} ? grow_persistent : persistent;
    }
    Bytes ephemeral_in(std::uint64_t iteration) const {
        return grown(iteration) && grow_ephemeral > Bytes{} ? grow_ephemeral : ephemeral;
    }
};

/// One line of why not, if what was typed makes no sense.
Result<Options> read_options(int argc, const char* const* argv);

}  // namespace salus::job
