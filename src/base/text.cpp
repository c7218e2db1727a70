#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <istream>
#include <numeric>

namespace salus {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        }
    }
    return row[b.size()];
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
    return out;
}

struct Unit {
    std::string_view name;
    double bytes;
};

constexpr std::array<Unit, 14> kUnits{{{"", 1.0},
                                       {"b", 1.0},
                                       {"k", 1024.0},
                                       {"kib", 1024.0},
                                       {"kb", 1e3},
                                       {"m", 1048576.0},
                                       {"mib", 1048576.0},
                                       {"mb", 1e6},
                                       {"g", 1073741824.0},
                                       {"gib", 1073741824.0},
                                       {"gb", 1e9},
                                       {"t", 1099511627776.0},
                                       {"tib", 1099511627776.0},
                                       {"tb", 1e12}}};

}  // namespace

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    const auto first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::optional<double> parse_number(std::string_view text) {
    text = trim(text);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
    text = trim(text);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<Bytes> parse_bytes(std::string_view text) {
    text = trim(text);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || !std::isfinite(value) || value <= 0) return std::nullopt;
    const std::string unit = lower(trim(std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end))));
    const auto found = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
    if (found == kUnits.end()) return std::nullopt;
    const double bytes = value * found->bytes;
    if (bytes < 1.0 || bytes > 0x1.0p60) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(bytes + 0.5)};
}

std::string format_bytes(Bytes bytes) {
    char text[32];
    const double mib = bytes.mib();
    // The unit is chosen by what will be shown: 1023.7 MiB is 1.0 GiB.
    if (mib >= 1023.5) std::snprintf(text, sizeof text, "%.1f GiB", mib / 1024.0);
    else std::snprintf(text, sizeof text, mib >= 99.95 ? "%.0f MiB" : "%.1f MiB", mib);
    return text;
}

std::optional<std::string_view> nearest_name(std::string_view typed, std::span<const std::string_view> known) {
    const std::string wanted = lower(typed);
    std::optional<std::string_view> best;
    std::size_t best_distance = std::max<std::size_t>(2, typed.size() / 3) + 1;
    for (std::string_view name : known) {
        const std::size_t distance = edit_distance(wanted, lower(name));
        if (distance < best_distance && distance < name.size()) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known) {
    const auto near = nearest_name(typed, known);
    return near ? "; did you mean '" + std::string(*near) + "'?" : "";
}

std::string last_line_of(std::istream& text) {
    std::string last;
    for (std::string line; std::getline(text, line);) {
        if (!line.empty()) last = line;
    }
    return last;
}

}  // namespace salus
