#include "cli/trace_pieces.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/service_link.h"
#include "os/file.h"
#include "os/places.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

/// TracePiece 0 is being written; a piece of a higher number is older.
struct TracePiece {
    std::string current;  ///< the path of piece 0
    std::int64_t number = 0;
    std::string path() const { return number == 0 ? current : fmt::format("{}.{}", current, number); }
};

TracePiece piece_at(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    const auto number = dot == std::string::npos ? std::nullopt : parse_integer(path.substr(dot + 1));
    return number && *number > 0 ? TracePiece{path.substr(0, dot), *number} : TracePiece{path, 0};
}

std::string text_in(const TracePiece& piece) {
    Result<std::string> text = os::read_file(trusted(piece.path()));
    if (!text) throw Failure{text.error()};
    return std::move(text).value();
}

/// As the service shows it to users who cannot read its files.
std::string copy_whole_trace(std::uint32_t device) {
    Result<std::string> copy = copy_trace(0, device);
    if (!copy) throw Failure{copy.error()};
    if (!begins_a_trace(copy.value())) throw Failure{kBeginningIsGone};
    return std::move(copy).value();
}

}  // namespace

bool begins_a_trace(std::string_view text) { return text.starts_with("salus-trace"); }

std::string read_whole_trace(const std::string& path) {
    const TracePiece named = piece_at(path);
    std::string text = text_in(named);
    TracePiece piece = named;
    for (; !begins_a_trace(text); text = text_in(piece) + text) {
        ++piece.number;
        if (!std::filesystem::exists(piece.path())) throw Failure{kBeginningIsGone};
    }
    for (piece = named; piece.number > 0;) {
        --piece.number;
        const std::string next = text_in(piece);
        if (begins_a_trace(next)) break;
        text += next;
    }
    return text;
}

std::string read_trace(const std::string& from, std::uint32_t device) {
    std::string path = os::default_state_directory() + "/trace";
    if (!from.empty()) {
        const bool is_path = from.find('/') != std::string::npos || std::filesystem::exists(from);
        path = is_path ? os::absolute_path(from) : os::default_state_directory() + "/" + from;
    } else if (const Result<std::string> answer = ask_service(wire::FlushTrace{device})) {
        const TraceStatus trace = trace_status_from(nlohmann::json::parse(answer.value(), nullptr, false));
        if (!trace.path.empty()) path = trace.path;
    }
    const bool is_anothers = from.empty() && ::access(path.c_str(), R_OK) != 0 && errno == EACCES;
    return is_anothers ? copy_whole_trace(device) : read_whole_trace(path);
}

}  // namespace salus::cli
