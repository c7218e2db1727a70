// What the kernel knows of the threads of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace salus::os {

/// The kernel's number of the calling thread.
int this_thread();
/// Time on a processor, of a thread of this process; 0 if it is gone.
std::uint64_t cpu_ns_of_thread(int thread);
/// On a processor, or waiting for one.
bool thread_runs(int thread);
/// Of this process. Nothing if the kernel does not tell.
std::optional<std::size_t> count_threads();

}  // namespace salus::os
