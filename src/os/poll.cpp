#include "os/poll.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "os/timespec.h"

namespace salus::os {

std::uint32_t readable_of(std::span<const int> descriptors, Duration limit, const sigset_t* signals) {
    std::array<pollfd, 32> watched{};
    SALUS_CHECK(descriptors.size() <= watched.size(), "a bit for each descriptor");
    std::ranges::transform(descriptors, watched.begin(), [](int descriptor) { return pollfd{descriptor, POLLIN, 0}; });
    const timespec time = timespec_of(limit);
    if (::ppoll(watched.data(), descriptors.size(), limit < Duration{} ? nullptr : &time, signals) <= 0) return 0;
    std::uint32_t ready = 0;
    for (std::size_t i = 0; i < descriptors.size(); ++i) ready |= watched[i].revents != 0 ? std::uint32_t{1} << i : 0;
    return ready;
}

bool readable_within(int descriptor, Duration limit) { return readable_of({&descriptor, 1}, limit) != 0; }

// epoll_wait knows milliseconds only. epoll_pwait2 needs Linux 5.11, and glibc has had it since 2.35; before, poll waits.
std::size_t events_within(int epoll, std::span<epoll_event> events, Duration limit) {
    constexpr long kEpollPwait2 = 441;  // on every architecture
    static std::atomic<bool> is_known{true};
    const int most = static_cast<int>(events.size());
    if (is_known.load(std::memory_order_relaxed)) {
        const timespec time = timespec_of(limit);
        const long count = ::syscall(kEpollPwait2, epoll, events.data(), most, limit < Duration{} ? nullptr : &time, nullptr,
                                     std::size_t{0});
        if (count >= 0 || errno == EINTR) return static_cast<std::size_t>(std::max(count, 0L));
        is_known = false;  // an older kernel, or a filter of system calls
    }
    if (!readable_within(epoll, limit)) return 0;
    return static_cast<std::size_t>(std::max(::epoll_wait(epoll, events.data(), most, 0), 0));
}

}  // namespace salus::os
