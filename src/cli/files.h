// Files that a command line names.
#pragma once

#include <string>
#include <string_view>

namespace salus::cli {

/// Ends the command if the file cannot be written.
void write_or_complain(const std::string& path, std::string_view content);

/// The path, if only this user and root can have written the file; otherwise the command ends.
std::string trusted(std::string path);

/// Call it before a long command: a UsageError if the file cannot be written. It creates no file and changes none.
void check_writable(const std::string& path);

}  // namespace salus::cli
