#include "cli/columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace salus::cli {
namespace {

struct Character {
    char32_t code = 0;
    std::size_t bytes = 1;
};

constexpr Character kInvalid{0xfffd, 1};

/// REQUIRES: not empty. Overlong forms and surrogates count as invalid: some terminals take them for what they mean.
Character first_of(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return kInvalid;
    char32_t code = lead & (0x7fu >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return kInvalid;
        code = code << 6 | (byte(i) & 0x3f);
    }
    constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return kInvalid;
    return {code, bytes};
}

struct CodeRange {
    char32_t first, last;
};

template <std::size_t N>
bool in(const std::array<CodeRange, N>& ranges, char32_t code) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const CodeRange& r) { return code >= r.first && code <= r.last; });
}

constexpr auto kControls = std::to_array<CodeRange>({{0, 0x1f},
                                                     {0x7f, 0x9f},
                                                     {0x061c, 0x061c},  // marks that turn the direction of writing,
                                                     {0x200e, 0x200f},  // also of what stands beside the name
                                                     {0x2028, 0x202e},
                                                     {0x2066, 0x2069}});
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

int width_of(char32_t code) {
    if (in(kNoWidth, code)) return 0;
    return in(kTwoWide, code) ? 2 : 1;
}

std::string repeated(std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Character c = first_of(text);
        if (c.code == kInvalid.code || in(kControls, c.code)) out += '?';
        else out += text.substr(0, c.bytes);
        text.remove_prefix(c.bytes);
    }
    return out;
}

int width_of(std::string_view text) {
    int width = 0;
    while (!text.empty()) {
        const Character c = first_of(text);
        width += width_of(c.code);
        text.remove_prefix(c.bytes);
    }
    return width;
}

std::string cut(std::string_view text, int width) {
    std::size_t end = 0;
    int used = 0;
    while (end < text.size()) {
        const Character c = first_of(text.substr(end));
        used += width_of(c.code);
        if (used > width) break;
        end += c.bytes;
    }
    return std::string(text.substr(0, end));
}

std::string shorten(std::string_view text, int width, std::string_view mark) {
    if (width_of(text) <= width) return std::string(text);
    return cut(cut(text, width - width_of(mark)) + std::string(mark), width);
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
