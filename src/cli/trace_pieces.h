// The pieces of a recorded trace, put together again: service/trace_file.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace salus::cli {

inline constexpr const char* kBeginningIsGone =
    "the beginning of the trace has been deleted; a larger --trace-limit keeps more";
bool begins_a_trace(std::string_view text);

/// The trace of the service that wrote the file at this path, which may be any piece of it. Fails in one line if the
/// beginning is not there any more.
std::string read_whole_trace(const std::string& path);

/// The trace of the service that runs, as far as its user may see it; or of the one that wrote this older file, such as
/// trace.1. `device`: its place in the status of a service with several. Fails in one line.
std::string read_trace(const std::string& from, std::uint32_t device = 0);

}  // namespace salus::cli
