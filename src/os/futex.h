// Waits for the low half of a word to change, and wakes the waiters, across processes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace salus::os {

/// Returns when woken, when the low half of the word differs from that of `seen`, or when time is up. False: a signal came
/// first.
bool wait_on(std::atomic<std::uint64_t>& word, std::uint64_t seen, Duration at_most);

void wake_all(std::atomic<std::uint64_t>& word);

}  // namespace salus::os
