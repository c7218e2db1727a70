// What a client's marks of requests (wire/gate_page.h) show over time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "wire/gate_page.h"

namespace salus::shell {

class RequestWatch {
public:
    /// What is on the page now was there before.
    void begin(const GatePage& page);
    /// True: something has changed since the last look.
    bool look(const GatePage& page, Instant now);

    std::uint32_t in_flight() const { return in_flight_; }
    /// Requests that began between the last two looks.
    std::uint32_t begun() const { return begun_; }

    struct Times {
        std::uint64_t requests = 0;  ///< answered, in all
        Duration p50, p99;           ///< of the last kKept of them, to the precision of looks
    };
    Times times() const;
    /// Of all of them, to the same precision.
    const Histogram& histogram() const { return histogram_; }
    static constexpr std::size_t kKept = 512;

private:
    void answered(Duration time);

    struct Seen {
        std::uint32_t number = 0;
        Instant begun_at = kNever;  ///< kNever: it was answered
    };
    std::array<Seen, GatePage::kMarks> seen_{};
    std::uint32_t in_flight_ = 0;
    std::uint32_t begun_ = 0;
    std::vector<Duration> times_;  ///< a ring
    Histogram histogram_{.least = microseconds(100)};
    std::uint64_t answered_ = 0;
};

}  // namespace salus::shell
