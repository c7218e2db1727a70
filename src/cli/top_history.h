// What `salus top` remembers of the last snapshots: how busy the device was, and whose turns it had. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "status/status.h"

namespace salus::cli {

/// One sign for each job, in bars and beside its name. After so many jobs the signs come again.
inline constexpr std::uint32_t kSigns = 62;
char sign_of(std::uint32_t job);

class TopHistory {
public:
    void update(const Status& status);

    /// Share of the devices' time with a turn, by snapshot; the last is the latest. At most `count`.
    std::vector<double> use(std::size_t count) const;

    /// `width` signs for the last ten seconds: each stretch between two snapshots is divided among the jobs by the time that
    /// they had in their iterations. ' ' is nobody, or not known. `gpu`: only of jobs on this device.
    std::string turns(std::size_t width, std::optional<unsigned> gpu = {}) const;

private:
    /// Between two snapshots.
    struct Stretch {
        double from_s = 0;
        double to_s = 0;
        std::map<std::uint32_t, double> busy_s;  ///< by job
        std::map<std::uint32_t, unsigned> gpu;   ///< the jobs' devices, as far as they are known
        double devices = 1;

        double length_s() const { return to_s - from_s; }
    };

    std::optional<double> last_s_;
    std::map<std::pair<std::uint32_t, int>, double> busy_s_;  ///< by job and process, as of the last snapshot
    std::deque<Stretch> stretches_;
};

}  // namespace salus::cli
