#include "cli/columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/characters.h"
#include "base/check.h"

namespace salus::cli {
namespace {

struct CodeRange {
    char32_t first, last;
};

template <std::size_t N>
bool in(const std::array<CodeRange, N>& ranges, char32_t code) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const CodeRange& r) { return code >= r.first && code <= r.last; });
}

constexpr auto kNoWidth =
    std::to_array<CodeRange>({{0x0300, 0x036f}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}});
constexpr auto kTwoWide = std::to_array<CodeRange>({{0x1100, 0x115f},
                                                    {0x2e80, 0x303e},
                                                    {0x3041, 0xa4cf},
                                                    {0xac00, 0xd7a3},
                                                    {0xf900, 0xfaff},
                                                    {0xfe30, 0xfe6f},
                                                    {0xff00, 0xff60},
                                                    {0xffe0, 0xffe6},
                                                    {0x1f300, 0x1f64f},
                                                    {0x1f680, 0x1f6ff},
                                                    {0x1f900, 0x1f9ff},
                                                    {0x20000, 0x3fffd}});

int columns_of(char32_t code) {
    if (in(kNoWidth, code)) return 0;
    return in(kTwoWide, code) ? 2 : 1;
}

std::string repeated(std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
}

}  // namespace

int width_of(std::string_view text) {
    int width = 0;
    while (!text.empty()) {
        const Character c = first_character(text);
        width += columns_of(c.code);
        text.remove_prefix(c.bytes);
    }
    return width;
}

std::string cut(std::string_view text, int width) {
    std::size_t end = 0;
    int used = 0;
    while (end < text.size()) {
        const Character c = first_character(text.substr(end));
        used += columns_of(c.code);
        if (used > width) break;
        end += c.bytes;
    }
    return std::string(text.substr(0, end));
}

std::string shorten(std::string_view text, int width, std::string_view mark) {
    if (width_of(text) <= width) return std::string(text);
    return cut(cut(text, width - width_of(mark)) + std::string(mark), width);
}

std::string on_own_line(std::string_view line, int columns) {
    if (columns < 2) return std::string(line);
    return std::string(static_cast<std::size_t>(columns - 1), ' ') + "\r" + std::string(line);
}

std::string pad(std::string_view text, int width, Align align) {
    const std::string room(static_cast<std::size_t>(std::max(width - width_of(text), 0)), ' ');
    return align == Align::kLeft ? std::string(text) + room : room + std::string(text);
}

std::string format_table(const std::vector<std::string>& header, const std::vector<Align>& aligns,
                         const std::vector<std::vector<std::string>>& rows) {
    SALUS_CHECK(header.size() == aligns.size(), "a table's header and its columns");
    std::vector<int> widths;
    for (std::size_t i = 0; i < header.size(); ++i) {
        int width = width_of(header[i]);
        for (const auto& row : rows) width = std::max(width, width_of(row[i]));
        widths.push_back(width);
    }
    std::string out;
    const auto add = [&](const std::vector<std::string>& cells) {
        SALUS_CHECK(cells.size() == widths.size(), "a row of a table");
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            line += (i == 0 ? "" : "  ") + pad(cells[i], widths[i], aligns[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    };
    add(header);
    for (const auto& row : rows) add(row);
    return out;
}

std::string bar(double share, int width, bool unicode) {
    if (!(share > 0)) share = 0;  // NaN, too
    const int filled = static_cast<int>(std::lround(std::min(share, 1.0) * width));
    return repeated(unicode ? "█" : "#", filled) + repeated(unicode ? "░" : ".", width - filled);
}

}  // namespace salus::cli
