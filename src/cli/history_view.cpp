#include "cli/history_view.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/client_class.h"
#include "base/text.h"
#include "cli/columns.h"
#include "cli/json_text.h"
#include "cli/status_view.h"
#include "history/records_json.h"

namespace salus::cli {
namespace {

constexpr int kCommandEnd = 28;  ///< length of the end of a command that is cut in the middle
constexpr int kCommandWidth = 2 * kCommandEnd + 3;

/// The program and its script without the directories that they are in.
std::string without_directories(std::string_view command) {
    std::string text;
    std::size_t words = 0;
    for (std::string_view word : split(command, ' ')) {
        if (words++ < 2) word.remove_prefix(word.rfind('/') + 1);
        text.append(text.empty() ? "" : " ").append(word);
    }
    return text;
}

std::string iteration_text(Duration time) {
    if (time.ns == 0) return "-";
    const double ms = time.seconds() * 1e3;
    return ms < 999.5 ? format_rate(ms) + " ms" : format_seconds(time.seconds());
}

std::string ended_text(const history::Run& run, double now_s) {
    const std::string ago = format_seconds(std::max(now_s - run.ended_at_s, 0.0)) + " ago";
    if (run.status == history::kStatusUnknown) return ago + ", status not seen";
    return run.status == 0 ? ago : fmt::format("{}, status {}", ago, run.status);
}

std::string size_text(Bytes size) { return size.count > 0 ? format_bytes(size) : "-"; }

std::vector<std::string> cells_of(const history::Record& record, double now_s) {
    const history::Run& run = record.last;
    const history::Figures& figures = run.figures;
    return {shortened_command(run.command),
            std::to_string(record.runs),
            figures.iterations > 0 ? std::to_string(figures.iterations) : "-",
            iteration_text(figures.iteration_time),
            size_text(figures.persistent),
            size_text(figures.ephemeral),
            std::string(name_of_class(figures.interactive)),
            format_seconds(run.took.seconds()),
            ended_text(run, now_s)};
}

/// Each pair once, or nothing.
std::string format_pairs(const std::vector<history::Record>& records) {
    std::vector<std::vector<std::string>> rows;
    std::set<std::tuple<std::string, std::string, bool>> shown;
    for (const history::Record& record : records) {
        for (const history::Beside& other : record.beside) {
            const auto both = std::minmax(record.last.command, other.command);
            if (!shown.insert({both.first, both.second, other.mps}).second) continue;
            rows.push_back({shortened_command(record.last.command), shortened_command(other.command),
                            fmt::format("{:.2f}", other.rate), other.mps ? "yes" : "no"});
        }
    }
    if (rows.empty()) return "";
    return "\n" + format_table({"RAN AT ONCE", "WITH", "TIMES AS FAST AS IN TURNS", "MPS"},
                               {Align::kLeft, Align::kLeft, Align::kRight, Align::kLeft}, rows);
}

}  // namespace

std::string shortened_command(std::string_view command) {
    std::string text = printable(command);
    if (width_of(text) > kCommandWidth) text = without_directories(text);
    const int width = width_of(text);
    if (width <= kCommandWidth) return text;
    const std::string without_end = cut(text, width - kCommandEnd);
    return cut(text, kCommandEnd) + "..." + text.substr(without_end.size());
}

std::string format_history(const std::vector<history::Record>& records, double now_s) {
    if (records.empty()) return "no history\n";
    std::vector<std::vector<std::string>> rows;
    for (const history::Record& record : records) rows.push_back(cells_of(record, now_s));
    using enum Align;
    return format_table({"COMMAND", "RUNS", "ITERATIONS", "ITERATION", "P", "T", "CLASS", "TOOK", "ENDED"},
                        {kLeft, kRight, kRight, kRight, kRight, kRight, kLeft, kRight, kLeft}, rows) +
           format_pairs(records);
}

std::string history_json(const std::vector<history::Record>& records) { return json_text(history::records_json(records)); }

}  // namespace salus::cli
