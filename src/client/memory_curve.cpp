#include "client/memory_curve.h"

#include <algorithm>

namespace salus::client {

void MemoryCurve::begin(std::uint64_t now_ns, std::uint64_t bytes) {
    *this = {};
    begun_ns_ = now_ns;
    bytes_ = least_ = most_[0] = bytes;
    used_ = 1;
}

void MemoryCurve::change(std::uint64_t now_ns, std::uint64_t bytes) {
    const std::uint64_t since = now_ns - std::min(begun_ns_, now_ns);
    while (since / step_ns_ >= kSteps) {
        const std::size_t pairs = (used_ + 1) / 2;
        for (std::size_t i = 0; i < pairs; ++i)
            most_[i] = std::max(most_[2 * i], 2 * i + 1 < used_ ? most_[2 * i + 1] : most_[2 * i]);
        used_ = pairs;
        step_ns_ *= 2;
    }
    const auto step = static_cast<std::size_t>(since / step_ns_);
    for (; used_ <= step; ++used_) most_[used_] = bytes_;  // nothing happened meanwhile
    most_[used_ - 1] = std::max(most_[used_ - 1], bytes);
    bytes_ = bytes;
    least_ = std::min(least_, bytes);
}

}  // namespace salus::client
