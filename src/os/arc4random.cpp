// libstdc++ and libevent, which we link statically, take random numbers from arc4random and arc4random_buf if the glibc that
// they were built with has them: 2.36 and newer. They are the only functions for which our binaries would need one so new;
// with these they run with 2.35, too.
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
    std::uint32_t value = 0;
    if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) std::abort();
    return value;
}

extern "C" __attribute__((visibility("hidden"))) void arc4random_buf(void* buffer, std::size_t size) noexcept {
    constexpr std::size_t kAtOnce = 256;  // the kernel gives that many without an interruption
    for (auto* at = static_cast<char*>(buffer); size > 0;) {
        const std::size_t part = size < kAtOnce ? size : kAtOnce;
        if (::getrandom(at, part, 0) != static_cast<ssize_t>(part)) std::abort();
        at += part;
        size -= part;
    }
}
