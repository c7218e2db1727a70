// Waits until descriptors are readable.
#pragma once

#include <signal.h>
#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"

namespace salus::os {

/// No time limit.
inline constexpr Duration kForEver{-1};

/// Which descriptors have data or have reached their end: one bit each, the first is the lowest. 0: none in time, or a
/// signal came. Negative numbers are skipped. `signals`: the signal mask while waiting. REQUIRES: at most 32 descriptors.
std::uint32_t readable_of(std::span<const int> descriptors, Duration limit, const sigset_t* signals = nullptr);

bool readable_within(int descriptor, Duration limit);

/// What has happened at what `epoll` watches, written to the beginning of `events`; how much that is. 0: nothing in time, or
/// a signal came.
std::size_t events_within(int epoll, std::span<epoll_event> events, Duration limit);

}  // namespace salus::os
