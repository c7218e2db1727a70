// The lines above the table of `salus top`: the device over time, its memory by owner, whose turns it had. Pure.
#pragma once

#include <vector>

#include "cli/top_view.h"

namespace salus::cli {

Style style_of_job(std::uint32_t job);

std::vector<Line> header_lines(const Status& status, const Rates& rates, const TopHistory& history,
                               const TopOptions& options);

}  // namespace salus::cli
