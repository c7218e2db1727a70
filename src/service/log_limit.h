// A limit for lines that others can cause as often as they like. Pure.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"

namespace salus::service {

/// Lets so many lines through in each span of time, and counts the others.
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

    /// When somebody should be told of those that were held back.
    Instant due() const { return held_back_ == 0 ? kNever : due_; }
    /// How many that are; they are told of by that.
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
