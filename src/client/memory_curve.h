// How much memory is in use over an iteration: the most in each of equally long steps. Pure.
//
// An iteration's length is not known before it has ended. So the steps are short at first, and two become one whenever they
// would be too many.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace salus::client {

class MemoryCurve {
public:
    static constexpr std::size_t kSteps = 32;
    static constexpr std::uint64_t kFirstStepNs = 1 << 12;

    /// `bytes`: in use when it begins.
    void begin(std::uint64_t now_ns, std::uint64_t bytes);
    /// From now on so much is in use.
    void change(std::uint64_t now_ns, std::uint64_t bytes);
    void end(std::uint64_t now_ns) { change(now_ns, bytes_); }

    std::uint64_t step_ns() const { return step_ns_; }
    std::span<const std::uint64_t> most() const { return {most_.data(), used_}; }
    /// In use at any time: where much comes at once and goes at once, no step shows it.
    std::uint64_t least() const { return least_; }

private:
    std::array<std::uint64_t, kSteps> most_{};
    std::size_t used_ = 0;
    std::uint64_t step_ns_ = kFirstStepNs;
    std::uint64_t begun_ns_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t least_ = 0;
};

}  // namespace salus::client
