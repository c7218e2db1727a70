// A limit for log lines that peers can cause as often as they like. Pure.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"

namespace salus::service {

/// Admits a number of lines in each span of time, and counts the others.
class LogLimit {
public:
    constexpr LogLimit(unsigned lines, Duration span) : lines_max_(lines), span_(span) {}

    /// Whether a line may be written now.
    bool admits(Instant now) {
        if (lines_ == 0 || now - since_ >= span_) {
            since_ = now;
            lines_ = 0;
        }
        if (lines_ < lines_max_) return ++lines_, true;
        if (held_back_++ == 0) due_ = now + span_;
        return false;
    }

    /// When the count of lines held back should be reported.
    Instant due() const { return held_back_ == 0 ? kNever : due_; }
    /// That count; resets it.
    std::uint64_t take() { return std::exchange(held_back_, 0); }

private:
    unsigned lines_max_;
    Duration span_;
    Instant since_;
    unsigned lines_ = 0;
    std::uint64_t held_back_ = 0;
    Instant due_;
};

}  // namespace salus::service
