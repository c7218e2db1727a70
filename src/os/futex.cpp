#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>

#include "os/timespec.h"

namespace salus::os {
namespace {

static_assert(std::endian::native == std::endian::little);
std::uint32_t* low_half_of(std::atomic<std::uint64_t>& word) { return reinterpret_cast<std::uint32_t*>(&word); }

}  // namespace

bool wait_on(std::atomic<std::uint64_t>& word, std::uint64_t seen, Duration at_most) {
    const timespec limit = timespec_of(at_most);
    const auto low_half = static_cast<std::uint32_t>(seen);
    return ::syscall(SYS_futex, low_half_of(word), FUTEX_WAIT, low_half, &limit, nullptr, 0) == 0 || errno != EINTR;
}

void wake_all(std::atomic<std::uint64_t>& word) {
    ::syscall(SYS_futex, low_half_of(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace salus::os
