#include "os/thread.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "os/descriptor.h"

namespace salus::os {

int this_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

std::uint64_t cpu_ns_of_thread(int thread) {
    const auto clock =
        static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6u);  // as pthread_getcpuclockid makes it
    timespec ran{};
    if (::clock_gettime(clock, &ran) != 0) return 0;
    return static_cast<std::uint64_t>(ran.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ran.tv_nsec);
}

/// Without an allocation: it is asked every millisecond inside other people's processes.
std::uint64_t sleeps_of_this_thread() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

bool thread_runs(int thread) {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    char text[256];
    const ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : -1;
    if (size <= 0) return false;
    text[size] = '\0';
    const char* after_name = std::strrchr(text, ')');  // the name may have any characters
    return after_name && after_name[1] == ' ' && after_name[2] == 'R';
}

std::optional<std::size_t> count_threads() {
    struct stat threads {};
    constexpr nlink_t kItselfAndParent = 2;
    if (::stat("/proc/self/task", &threads) != 0 || threads.st_nlink < kItselfAndParent) return std::nullopt;
    return static_cast<std::size_t>(threads.st_nlink - kItselfAndParent);
}

bool barrier_in_all_threads() {
    const auto membarrier = [](int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; };
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

NoCancellation::NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
NoCancellation::~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }

HeldSignals::HeldSignals() {
    sigset_t held;
    ::sigfillset(&held);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&held, fault);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}
HeldSignals::~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace salus::os
