#include "cli/job_logs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/text.h"
#include "os/file.h"
#include "os/places.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".log";
/// More logs than anybody keeps under one name; bounds the search.
constexpr int kSameNameMax = 100'000;

std::string as_in_file_names(std::string_view name) {
    std::string text = printable(name, '_');
    std::replace(text.begin(), text.end(), '/', '_');
    return text;
}

struct LogName {
    std::string_view job;
    std::string_view name;
    std::int64_t count = 1;  ///< 2: the second of this number and name
};

std::optional<LogName> parse_log_name(std::string_view file) {
    LogName log;
    if (!file.ends_with(kEnding)) {
        const std::size_t dot = file.rfind('.');
        const auto count = dot == std::string_view::npos ? std::nullopt : parse_integer(file.substr(dot + 1));
        if (!count) return std::nullopt;
        log.count = *count;
        file = file.substr(0, dot);
    }
    const std::size_t dash = file.find('-');
    if (!file.ends_with(kEnding) || dash == std::string_view::npos) return std::nullopt;
    log.job = file.substr(0, dash);
    log.name = file.substr(dash + 1, file.size() - dash - 1 - kEnding.size());
    return log;
}

}  // namespace

std::string log_directory() { return os::default_state_directory() + "/logs"; }

Result<NewLog> make_log(const std::string& directory, std::uint32_t job, const std::string& name) {
    if (const Result<bool> made = os::make_private_directory(directory); !made) return Error{made.error()};
    const std::string first = fmt::format("{}/{}-{}{}", directory, job, as_in_file_names(name), kEnding);
    std::string path = first;
    for (int count = 2; count < kSameNameMax; ++count) {
        os::Descriptor file = os::open_file(path, os::Open::kNew);
        if (file) return NewLog{path, std::move(file)};
        if (errno != EEXIST) break;
        path = fmt::format("{}.{}", first, count);
    }
    return Error{path + ": " + std::strerror(errno)};
}

Result<std::string> find_log(const std::string& directory, const std::string& which) {
    struct Found {
        fs::file_time_type written;
        std::int64_t count;
        std::string path;
        auto operator<=>(const Found&) const = default;
    };
    const std::string wanted = as_in_file_names(which);
    std::optional<Found> latest;
    std::vector<std::string> names;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
        const std::string file = entry.path().filename().string();
        const auto log = parse_log_name(file);
        if (log) names.emplace_back(log->name);
        if (!log || (log->job != wanted && log->name != wanted)) continue;
        const Found found{entry.last_write_time(error), log->count, entry.path().string()};
        if (!error && (!latest || *latest < found)) latest = found;
    }
    if (latest) return latest->path;
    const std::string hint = did_you_mean(which, std::vector<std::string_view>(names.begin(), names.end()));
    return Error{
        fmt::format("no log for job '{}'{}", which, hint.empty() ? "; only jobs started with --detach have one" : hint)};
}

void skip_to_last_lines(std::FILE* file, std::uint64_t lines) {
    std::array<char, 65536> block;
    if (std::fseek(file, 0, SEEK_END) != 0) return;
    const long end = std::ftell(file);
    std::uint64_t ends = 0;  // of lines, seen so far from the end; that of the last line does not count
    for (long block_end = end; block_end > 0 && lines > 0;) {
        const long start = std::max(block_end - static_cast<long>(block.size()), 0L);
        std::fseek(file, start, SEEK_SET);
        const std::size_t got = std::fread(block.data(), 1, static_cast<std::size_t>(block_end - start), file);
        for (long at = start + static_cast<long>(got) - 1; at >= start; --at) {
            if (block[static_cast<std::size_t>(at - start)] != '\n' || at == end - 1 || ++ends < lines) continue;
            std::fseek(file, at + 1, SEEK_SET);
            return;
        }
        block_end = start;
    }
    std::fseek(file, lines == 0 ? end : 0, SEEK_SET);
}

}  // namespace salus::cli
