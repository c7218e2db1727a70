// What the kernel knows of the threads of this process.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace salus::os {

/// The kernel's number of the calling thread.
int this_thread();
/// Processor time of a thread of this process; 0 if the thread has ended.
std::uint64_t cpu_ns_of_thread(int thread);
/// How often the calling thread has waited for something other than a processor.
std::uint64_t sleeps_of_this_thread();
/// The thread is on a processor, or waits for one.
bool thread_runs(int thread);
/// Number of threads of this process. Nothing if the kernel does not tell.
std::optional<std::size_t> count_threads();
/// Every thread of this process that runs, the caller included, passes a full memory barrier before this returns. False:
/// this kernel cannot.
bool barrier_in_all_threads();

/// While it lives, no signal reaches the calling thread, except where it waits with the mask from before (readable_of). So
/// one that came just before a wait still ends it.
class HeldSignals {
public:
    HeldSignals();
    ~HeldSignals();
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    const sigset_t& before() const { return before_; }

private:
    sigset_t before_;
};

/// While it lives, the calling thread is not cancelled: pthread_cancel would unwind through frames that are not ours.
class NoCancellation {
public:
    NoCancellation();
    ~NoCancellation();
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

private:
    int before_ = 0;
};

}  // namespace salus::os
