// The contents of `salus top`: lines of styled text for a screen of any size. Pure; top_command.cpp handles the terminal,
// and top_keys.h what keys do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/status_view.h"
#include "cli/top_history.h"

namespace salus::cli {

enum class Style : std::uint8_t {
    kPlain,
    kBold,
    kDim,
    kRunning,
    kWarning,
    kError,
    kBar,
    kHeader,
    kSorted,
    kJob1,  ///< jobs in bars have one of these, by their number
    kJob2,
    kJob3,
    kJob4,
    kJob5,
};

struct Piece {
    int column = 0;
    std::string text;
    Style style = Style::kPlain;
};
using Line = std::vector<Piece>;

enum class SortKey : std::uint8_t { kJob, kShare, kIterations, kWaiting, kLeft, kMemory };

/// What the keys ask next.
enum class TopMode : std::uint8_t {
    kJobs,
    kFilter,       ///< text for the filter is being typed
    kConfirmKill,  ///< whether the job that `chosen` names is to be killed
    kHelp,
};

struct TopOptions {
    int width = 80;
    int height = 24;
    bool unicode = true;  ///< what the terminal can show
    SortKey sort = SortKey::kJob;
    int first = 0;             ///< the first row shown; top_lines() keeps the chosen row on the screen
    std::uint32_t chosen = 0;  ///< the job that keys act on; 0: none
    std::string filter = {};   ///< only jobs whose number, name, user or state has this text
    TopMode mode = TopMode::kJobs;
    std::string said = {};  ///< what came of the last key
};

/// The rows that the filter lets through, in the order of the screen.
std::vector<JobStatus> rows_of(const Status& status, const Rates& rates, const TopOptions& options);

/// At most as many lines as the screen has, none wider than the screen. The last line is for the keys, at the bottom.
std::vector<Line> top_lines(const Status& status, const Rates& rates, const TopHistory& history, TopOptions& options);

/// The same if there is only a reason to show.
std::vector<Line> trouble_lines(const std::string& why, const TopOptions& options);

}  // namespace salus::cli
