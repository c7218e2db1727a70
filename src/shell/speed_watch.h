// How busy the clients of a device are, and how their iterations compare with what was expected of them. Pure.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "base/time.h"

namespace salus::shell {

/// The time that all clients together spend inside iterations, as a share of the last second.
class InsideWatch {
public:
    static constexpr Duration kWindow = seconds(1);
    static constexpr Duration kEvery = milliseconds(100);

    bool is_due(Instant now) const { return seen_.empty() || now - seen_.back().at >= kEvery; }
    /// `total`: of all clients so far, also of those that have left. Only grows.
    void look(Instant now, Duration total);
    /// If nobody has looked for longer than the window, since the last look. Nothing: it is too early to tell.
    std::optional<double> share(Instant now, Duration total) const;

private:
    struct Look {
        Instant at;
        Duration total;
    };
    std::deque<Look> seen_;  ///< the first is not younger than the window, if any is that old
};

/// What iterations took, against what was expected.
class PaceWatch {
public:
    static constexpr std::size_t kKept = 32;

    /// Of one client.
    struct Iterations {
        Duration expected, actual;  ///< of one
    };
    /// It has left. The last kKept of them count.
    void add(const Iterations& iterations);

    struct Median {
        double ratio = 1;
        Duration extra;
    };
    /// Over these and the clients that are there; nothing: there are none.
    std::optional<Median> median(std::span<const Iterations> present) const;

private:
    std::deque<Iterations> gone_;
};

}  // namespace salus::shell
