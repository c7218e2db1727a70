#include "cli/usage_table.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"
#include "cli/history_view.h"
#include "cli/json_text.h"
#include "cli/status_view.h"
#include "os/calendar.h"

namespace salus::cli {
namespace {

using history::Usage;

/// Grows when a key is renamed, removed or gets another meaning.
constexpr int kSchemaVersion = 1;

/// The commands of one user, and their sum.
struct UserUsage {
    Usage sum;
    std::vector<Usage> commands;
};

std::vector<UserUsage> by_user(const std::vector<Usage>& usage) {
    std::vector<UserUsage> users;
    for (const Usage& part : usage) {
        if (users.empty() || users.back().sum.uid != part.uid) {
            users.emplace_back();
            users.back().sum.uid = part.uid;
        }
        Usage& sum = users.back().sum;
        sum.jobs += part.jobs;
        sum.iterations += part.iterations;
        sum.use += part.use;
        sum.took.ns += std::min(part.took.ns, std::numeric_limits<std::int64_t>::max() - sum.took.ns);
        users.back().commands.push_back(part);
    }
    return users;
}

std::string memory_time_text(double gib_s) {
    return gib_s < 3600 ? format_rate(gib_s) + " GiB s" : format_rate(gib_s / 3600) + " GiB h";
}

std::vector<std::string> cells_of(const Usage& usage, const std::string& user, const std::string& command) {
    return {user,
            std::to_string(usage.jobs),
            std::to_string(usage.iterations),
            format_seconds(usage.use.device_s),
            memory_time_text(usage.use.memory_time_gib_s),
            format_seconds(usage.took.seconds()),
            command};
}

nlohmann::ordered_json figures_of(const Usage& usage) {
    return {{"jobs", usage.jobs},
            {"iterations", usage.iterations},
            {"device_s", usage.use.device_s},
            {"memory_time_gib_s", usage.use.memory_time_gib_s},
            {"elapsed_s", usage.took.seconds()}};
}

/// Seconds in one of these units.
std::optional<double> unit_s(char unit) {
    switch (unit) {
        case 's': return 1;
        case 'm': return 60;
        case 'h': return 3600;
        case 'd': return 86400;
        case 'w': return 7 * 86400;
        default: return std::nullopt;
    }
}

std::optional<double> parse_date(const std::string& text) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, end = 0;
    if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3) return std::nullopt;
    if (static_cast<std::size_t>(end) < text.size()) {
        int more = 0;
        if (std::sscanf(text.c_str() + end, "%*1[ T]%2d:%2d%n", &hour, &minute, &more) != 2) return std::nullopt;
        if (static_cast<std::size_t>(end + more) != text.size()) return std::nullopt;
    }
    return os::unix_time_of(year, month, day, hour, minute);
}

}  // namespace

std::optional<double> parse_span_s(std::string_view text) {
    text = trim(text);
    const auto unit = text.empty() ? std::nullopt : unit_s(text.back());
    const auto number = unit ? parse_number(text.substr(0, text.size() - 1)) : std::nullopt;
    return number && *number >= 0 ? std::optional(*number * *unit) : std::nullopt;
}

std::optional<double> parse_since(std::string_view text, double now_s) {
    text = trim(text);
    if (const auto span_s = parse_span_s(text)) return std::max(now_s - *span_s, 0.0);
    return text.empty() || unit_s(text.back()) ? std::nullopt : parse_date(std::string(text));
}

std::string format_usage(const std::vector<Usage>& usage, const NameOfUser& name_of) {
    if (usage.empty()) return "no jobs have ended\n";
    std::vector<std::vector<std::string>> rows;
    for (const UserUsage& user : by_user(usage)) {
        rows.push_back(cells_of(user.sum, printable(name_of(user.sum.uid)), "(all)"));
        for (const Usage& part : user.commands) rows.push_back(cells_of(part, "", shortened_command(part.command)));
    }
    using enum Align;
    return format_table({"USER", "JOBS", "ITERATIONS", "DEVICE TIME", "MEMORY TIME", "TOOK", "COMMAND"},
                        {kLeft, kRight, kRight, kRight, kRight, kRight, kLeft}, rows);
}

std::string usage_json(const std::vector<Usage>& usage, double since_s, const NameOfUser& name_of) {
    nlohmann::ordered_json users = nlohmann::ordered_json::array();
    for (const UserUsage& user : by_user(usage)) {
        nlohmann::ordered_json row = {{"uid", user.sum.uid}, {"user", name_of(user.sum.uid)}};
        row.update(figures_of(user.sum));
        row["commands"] = nlohmann::ordered_json::array();
        for (const Usage& part : user.commands) {
            nlohmann::ordered_json command = {{"command", part.command}};
            command.update(figures_of(part));
            row["commands"].push_back(command);
        }
        users.push_back(row);
    }
    return json_text(
        nlohmann::ordered_json{{"schema_version", kSchemaVersion}, {"since_unix_s", since_s}, {"users", users}});
}

}  // namespace salus::cli
