// Text that other people's programs give us: which of it can be shown. Pure; text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace salus {

inline constexpr char32_t kInvalidCharacter = 0xfffd;

struct Character {
    char32_t code = 0;  ///< kInvalidCharacter: this byte begins none
    std::size_t bytes = 1;
};

/// REQUIRES: not empty. Overlong forms and surrogates count as invalid: some terminals take them for what they mean.
Character first_character(std::string_view text);

/// It moves the cursor, begins another line, turns the direction of writing, or is not seen at all.
bool is_control(char32_t code);

/// As it may be shown to a person: control characters and invalid bytes are replaced.
std::string printable(std::string_view text, char instead = '?');

}  // namespace salus
