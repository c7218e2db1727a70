// The page that a client shares with the service: the control word, and figures that would be too frequent for messages.
//
// The client makes it (a memfd sealed against shrinking) and passes it on when it attaches, so it outlives a service: after
// a restart the same page, with the same counts, is attached again.
//
// Each field is written by one side alone. What a client wants and what it may have are different fields.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace salus {

struct ControlPage {
    alignas(64) std::atomic<std::uint64_t> word{0};  ///< control_word.h

    // Written by the client, read by the service, which believes none of it.
    alignas(64) std::atomic<std::uint64_t> iterations{0};  ///< done since the client began
    std::atomic<std::uint64_t> busy_ns{0};                 ///< time inside iterations that have ended
    std::atomic<std::uint64_t> begun_ns{0};                ///< CLOCK_MONOTONIC when the present or last iteration began ...
    std::atomic<std::uint64_t> ended_ns{0};                ///< ... and when the last one ended
    std::atomic<std::uint64_t> wanted_persistent{0};       ///< its demand, as of its last boundary
    std::atomic<std::uint64_t> wanted_ephemeral{0};
    std::atomic<std::uint64_t> held_bytes{0};  ///< device memory behind its private windows
    std::atomic<std::uint64_t> quiet{0};       ///< 1: it exits, and nothing of it is in flight
    std::atomic<std::uint64_t> left{0};        ///< 1: it has left, its lane too, and cannot say so in a message

    /// Written by the service before each grant: the private memory that the client may use in the turn, in all. Here and
    /// not in a message, since the grant would overtake that.
    alignas(64) std::atomic<std::uint64_t> allowed_private{0};
    std::atomic<std::uint64_t> others{0};       ///< by the service: how many other clients there are ...
    std::atomic<std::uint64_t> others_hold{0};  ///< ... and the memory that they and the lanes have reserved

    /// By the client: what the start of a turn costs it, drawn from its last turns; 0: not known.
    alignas(64) std::atomic<std::uint64_t> turn_cost_ns{0};

    // For viewers only.
    alignas(64) std::atomic<std::uint64_t> lane_bytes{0};  ///< allocated in the lane, in all
    std::atomic<std::uint64_t> missed_bytes{0};            ///< died inside an iteration, but were private
    std::atomic<std::uint64_t> lane_peak{0};               ///< most of the lane in use at once
    std::atomic<std::uint64_t> private_bytes{0};           ///< in use now
    std::atomic<std::uint64_t> evacuations{0};
    std::atomic<std::uint64_t> evacuated_bytes{0};
    std::atomic<std::uint64_t> page_outs{0};
    std::atomic<std::uint64_t> launches{0};            ///< of a client that takes turns by launches
    std::atomic<std::uint64_t> boundaries_delayed{0};  ///< hand-overs put off because a block could not be moved out
};

inline constexpr std::size_t kControlPageSize = 4096;
static_assert(sizeof(ControlPage) <= kControlPageSize);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace salus
