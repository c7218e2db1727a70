// Text in columns of a terminal. Pure; text is UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace salus::cli {

/// Its width in columns: 0 for combining marks, 2 for East Asian characters and most pictographs.
int width_of(std::string_view text);

/// The longest prefix that fits into this many columns.
std::string cut(std::string_view text, int width);
/// The same, but ending in `mark` if something was cut off.
std::string shorten(std::string_view text, int width, std::string_view mark);

/// The line, preceded by what makes a terminal of so many columns write it at the start of a line, wherever its cursor is
/// now: as many blanks as wrap from mid-line to the next line, but not from the start of a line. 0 columns: no terminal.
std::string on_own_line(std::string_view line, int columns);

enum class Align { kLeft, kRight };

/// Pads the text to this many columns.
std::string pad(std::string_view text, int width, Align align);

/// A header and rows of as many cells; two spaces between columns, none at the end of a line.
std::string format_table(const std::vector<std::string>& header, const std::vector<Align>& aligns,
                         const std::vector<std::vector<std::string>>& rows);

/// `width` columns, of which `share` (0 to 1) is filled.
std::string bar(double share, int width, bool unicode);

}  // namespace salus::cli
