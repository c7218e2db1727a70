// The contents of `salus top`: lines of styled text for a screen of any size. Pure; top_command.cpp handles the terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/status_view.h"

namespace salus::cli {

enum class Style { kPlain, kBold, kDim, kRunning, kWarning, kError, kBar, kHeader, kSorted };

struct Piece {
    int column = 0;
    std::string text;
    Style style = Style::kPlain;
};
using Line = std::vector<Piece>;

enum class SortKey { kJob, kShare, kIterations, kWaiting };

struct TopOptions {
    int width = 80;
    int height = 24;
    bool unicode = true;  ///< what the terminal can show
    SortKey sort = SortKey::kJob;
    int first = 0;  ///< the first job shown; top_lines() brings it into range
};

/// At most as many lines as the screen has, none wider than the screen. The last line is the help, at the bottom.
std::vector<Line> top_lines(const Status& status, const Rates& rates, TopOptions& options);

/// The same if there is only a reason to show.
std::vector<Line> trouble_lines(const std::string& why, const TopOptions& options);

}  // namespace salus::cli
