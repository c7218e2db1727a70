// The page that a client shares with the service: the control word, and figures that change too often for messages.
//
// The client creates the page (a memfd sealed against shrinking) and passes it to the service when it attaches. So the page
// outlives a service: after a restart the client attaches the same page, with the same counts.
//
// Apart from the word, each field is written by one side alone. What a client wants and what it may have are different
// fields.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/histogram.h"
#include "wire/gate_page.h"

namespace salus {

/// Where memory of a GPU lies while it is paged out: memory of the host that is pinned, other memory, a file.
enum class PagePlace : std::uint8_t { kPinned, kMemory, kFile };
inline constexpr std::size_t kPagePlaces = 3;

/// What the kernel and the device's driver map and pin as one.
inline constexpr std::size_t kMemoryPage = 4096;

struct ControlPage {
    alignas(64) std::atomic<std::uint64_t> word{0};  ///< control_word.h

    // Written by the client, read by the service, which trusts none of it.
    alignas(64) std::atomic<std::uint64_t> iterations{0};  ///< completed since the client began
    std::atomic<std::uint64_t> busy_ns{0};                 ///< time inside iterations that have ended
    std::atomic<std::uint64_t> begun_ns{0};                ///< CLOCK_MONOTONIC when the current or last iteration began ...
    std::atomic<std::uint64_t> ended_ns{0};                ///< ... and when the last one ended
    std::atomic<std::uint64_t> wanted_persistent{0};       ///< its demand, as of its last boundary
    std::atomic<std::uint64_t> wanted_ephemeral{0};
    std::atomic<std::uint64_t> held_bytes{0};  ///< device memory behind its private windows
    std::atomic<std::uint64_t> quiet{0};       ///< 1: it is exiting, and none of its device work is in flight
    std::atomic<std::uint64_t> left{0};        ///< 1: it has left the service and its lane, and cannot send a message

    /// Written by the service before each grant: the total private memory that the client may use in the turn. It is not in
    /// a message because the grant would overtake the message.
    alignas(64) std::atomic<std::uint64_t> allowed_private{0};
    std::atomic<std::uint64_t> others{0};       ///< by the service: how many other clients there are ...
    std::atomic<std::uint64_t> others_hold{0};  ///< ... and the memory that they and the lanes have reserved

    /// Written by the client: what the start of a turn costs it, estimated from its last turns; 0: not known.
    alignas(64) std::atomic<std::uint64_t> turn_cost_ns{0};

    // For viewers only.
    alignas(64) std::atomic<std::uint64_t> lane_bytes{0};  ///< total allocated in the lane
    std::atomic<std::uint64_t> missed_bytes{0};            ///< freed inside their iteration, but were private
    std::atomic<std::uint64_t> lane_peak{0};               ///< most of the lane in use at once
    std::atomic<std::uint64_t> private_bytes{0};           ///< in use now
    std::atomic<std::uint64_t> evacuations{0};
    std::atomic<std::uint64_t> evacuated_bytes{0};
    std::atomic<std::uint64_t> page_outs{0};
    std::array<std::atomic<std::uint64_t>, kPagePlaces> paged_bytes{};  ///< out of a GPU, by place
    std::atomic<std::uint64_t> launches{0};                             ///< of a client that takes turns by launches
    std::atomic<std::uint64_t> boundaries_delayed{0};  ///< hand-overs put off because a block could not be moved out

    /// Its iterations by their time: a Histogram whose first bound is kIterationTimesLeast.
    alignas(64) std::array<std::atomic<std::uint64_t>, Histogram::kPlaces> iterations_by_time{};
    std::atomic<std::uint64_t> iteration_times_ns{0};  ///< their sum
    static constexpr Duration kIterationTimesLeast = microseconds(100);

    /// For viewers only: the memory in use over one of its last iterations. While the client writes it, it has no steps.
    static constexpr std::size_t kCurveSteps = 32;
    alignas(64) std::atomic<std::uint64_t> curve_steps{0};
    std::atomic<std::uint64_t> curve_step_ns{0};
    std::atomic<std::uint64_t> curve_least{0};
    std::array<std::atomic<std::uint64_t>, kCurveSteps> curve{};  ///< the most in each step

    alignas(kMemoryPage) GatePage gates;
};

inline constexpr std::size_t kControlPageSize = 2 * kMemoryPage;
static_assert(sizeof(ControlPage) == kControlPageSize && sizeof(GatePage) <= kMemoryPage);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace salus
