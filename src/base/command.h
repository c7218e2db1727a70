// Identifies a command across its runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace salus {

/// Stable hashes, the same in every process and version. 0: none.
struct CommandKeys {
    std::uint64_t command = 0;  ///< its words and the working directory
    std::uint64_t program = 0;  ///< the same without arguments: matches runs of the same script with other arguments

    bool operator==(const CommandKeys&) const = default;
};

/// REQUIRES: at least one word.
CommandKeys keys_of(const std::vector<std::string>& words, std::string_view directory);

/// The command in one line, without control characters.
std::string text_of_command(const std::vector<std::string>& words);

}  // namespace salus
