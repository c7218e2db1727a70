#include "base/characters.h"

#include <algorithm>
#include <array>

namespace salus {
namespace {

struct CodeRange {
    char32_t first, last;
};

constexpr auto kControls = std::to_array<CodeRange>({{0, 0x1f},
                                                     {0x7f, 0x9f},
                                                     {0x061c, 0x061c},  // marks that change the direction of writing,
                                                     {0x200e, 0x200f},  // also of the text beside the name
                                                     {0x2028, 0x202e},
                                                     {0x2066, 0x206f},
                                                     {0xfff9, 0xfffb},  // annotations and tags: invisible
                                                     {0xe0000, 0xe007f}});

}  // namespace

Character first_character(std::string_view text) {
    constexpr Character kInvalid{kInvalidCharacter, 1};
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

bool is_control(char32_t code) {
    return std::any_of(kControls.begin(), kControls.end(),
                       [&](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

std::string printable(std::string_view text, char instead) {
    std::string out;
    while (!text.empty()) {
        const Character c = first_character(text);
        if (c.code == kInvalidCharacter || is_control(c.code)) out += instead;
        else out += text.substr(0, c.bytes);
        text.remove_prefix(c.bytes);
    }
    return out;
}

}  // namespace salus
