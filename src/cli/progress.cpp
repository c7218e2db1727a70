#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "os/clock.h"

namespace salus::cli {

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) == 1), start_(os::now()), last_(start_) {}

ProgressBar::~ProgressBar() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(std::string_view label, double share) {
    if (!on_terminal_) return;
    const Instant now = os::now();
    if (now - start_ < seconds(1) || now - last_ < milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    constexpr int kWidth = 40;
    const int filled = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
    const std::string bar =
        std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(kWidth - filled), '.');
    std::fprintf(stderr, "\r[%s] %3.0f %%  %.*s\x1b[K", bar.c_str(), 100 * share, static_cast<int>(label.size()),
                 label.data());
    std::fflush(stderr);
}

}  // namespace salus::cli
