// libstdc++, which we link statically, takes random numbers from arc4random if the glibc that it was built with has it: 2.36
// and newer. It is the only function for which our binaries would need one so new; with this one they run with 2.35, too.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
    std::uint32_t value = 0;
    if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) std::abort();
    return value;
}
