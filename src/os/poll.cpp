#include "os/poll.h"

#include <poll.h>

#include <algorithm>
#include <array>

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

}  // namespace salus::os
