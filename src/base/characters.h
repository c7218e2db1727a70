// Text from other people's programs: which characters can be shown safely. Pure; text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace salus {

inline constexpr char32_t kInvalidCharacter = 0xfffd;

struct Character {
    char32_t code = 0;  ///< kInvalidCharacter: no character begins with this byte
    std::size_t bytes = 1;
};

/// REQUIRES: not empty. Overlong forms and surrogates count as invalid: some terminals interpret them nevertheless.
Character first_character(std::string_view text);

/// The character moves the cursor, begins a new line, changes the direction of writing, or is invisible.
bool is_control(char32_t code);

/// Safe to show to a person: control characters and invalid bytes are replaced.
std::string printable(std::string_view text, char instead = '?');

}  // namespace salus
