#include "os/patience.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace salus::os {

Duration orphan_wait() {
    constexpr double kOtherwise = 60, kMost = 1e9;
    const char* text = std::getenv("SALUS_ORPHAN_WAIT");
    const double named = text ? parse_number(text).value_or(kOtherwise) : kOtherwise;
    return seconds_of(named >= 0 ? std::min(named, kMost) : kOtherwise);
}

Duration start_wait() { return std::min(seconds(20), orphan_wait()); }

}  // namespace salus::os
