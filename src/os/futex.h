// Waiting for the low half of a word to change, and waking who waits, across processes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace salus::os {

/// Returns when somebody wakes it, the low half of the word is not that of `seen`, or time is up. False: a signal came
/// first.
bool wait_on(std::atomic<std::uint64_t>& word, std::uint64_t seen, Duration at_most);

void wake_all(std::atomic<std::uint64_t>& word);

}  // namespace salus::os
