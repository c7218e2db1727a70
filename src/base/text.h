// Parses what people type (numbers, sizes, names) and what programs print.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace salus {

/// The whole of `text` as a finite decimal number, or nothing ("nan", "inf", "1x" and "" are nothing).
std::optional<double> parse_number(std::string_view text);

/// The whole of `text` as an integer in the range of int64, or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// A size with a unit: "16GiB", "512 MiB", "1.5G", "2e9"; a bare number is bytes. Nothing unless positive and exact enough.
std::optional<Bytes> parse_bytes(std::string_view text);

/// "15.9 GiB", "512 MiB".
std::string format_bytes(Bytes bytes);

/// The known name nearest to the typed one, if it is near enough to be a typing error.
std::optional<std::string_view> nearest_name(std::string_view typed, std::span<const std::string_view> known);

/// "; did you mean 'policy'?", to end an error; empty if no name is near enough.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// The last line that is not empty.
std::string last_line_of(std::istream& text);

}  // namespace salus
