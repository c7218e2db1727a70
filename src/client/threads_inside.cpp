#include "client/threads_inside.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace salus::client {
namespace {

/// Time on a processor, of a thread of this process; 0 if it is gone.
std::uint64_t ran_ns(int thread) {
    const auto clock =
        static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6u);  // as pthread_getcpuclockid makes it
    timespec ran{};
    if (::clock_gettime(clock, &ran) != 0) return 0;
    return static_cast<std::uint64_t>(ran.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ran.tv_nsec);
}

/// On a processor, or waiting for one.
bool runs(int thread) {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[256];
    const ssize_t size = ::read(file, text, sizeof text - 1);
    ::close(file);
    if (size <= 0) return false;
    text[size] = '\0';
    const char* after_name = std::strrchr(text, ')');  // the name may have any characters
    return after_name && after_name[1] == ' ' && after_name[2] == 'R';
}

}  // namespace

int ThreadsInside::enter() {
    const int me = static_cast<int>(::syscall(SYS_gettid));
    for (std::size_t place = 0; place < kPlaces; ++place) {
        int nobody = 0;
        if (threads_[place].compare_exchange_strong(nobody, me, std::memory_order_relaxed)) return static_cast<int>(place);
    }
    return -1;
}

void ThreadsInside::leave(int place) { threads_[static_cast<std::size_t>(place)].store(0, std::memory_order_relaxed); }

bool ThreadsInside::Watch::rest() {
    bool rest = looked_;
    looked_ = true;
    for (std::size_t place = 0; place <= kPlaces; ++place) {
        const int thread = place < kPlaces ? threads_.threads_[place].load(std::memory_order_relaxed) : also_;
        const Seen now{thread, thread == 0 ? 0 : ran_ns(thread)};
        if (now.thread != before_[place].thread || now.ran_ns != before_[place].ran_ns) rest = false;
        else if (rest && thread != 0 && runs(thread)) rest = false;
        before_[place] = now;
    }
    return rest;
}

}  // namespace salus::client
