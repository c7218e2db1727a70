// A progress bar on standard error: only on a terminal, and only for what takes more than a second.
#pragma once

#include <chrono>
#include <string_view>

namespace salus::cli {

class ProgressBar {
public:
    ProgressBar();
    ~ProgressBar();  ///< leaves the line empty
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void show(std::string_view label, double share);

private:
    using Clock = std::chrono::steady_clock;
    bool on_terminal_;
    bool shown_ = false;
    Clock::time_point start_;
    Clock::time_point last_;
};

}  // namespace salus::cli
