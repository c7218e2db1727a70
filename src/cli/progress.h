// A progress bar on standard error, only on a terminal and only after one second.
#pragma once

#include <string_view>

#include "base/time.h"

namespace salus::cli {

class ProgressBar {
public:
    ProgressBar();
    ~ProgressBar();  ///< leaves the line empty
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void show(std::string_view label, double share);

private:
    bool on_terminal_;
    bool shown_ = false;
    Instant start_;
    Instant last_;
};

}  // namespace salus::cli
