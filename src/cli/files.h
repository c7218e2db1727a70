// Whole files in and out, with an error that names the file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace salus::cli {

Result<std::string> read_file(const std::string& path);

struct Written {};
Result<Written> write_file(const std::string& path, std::string_view content);

/// The same for commands, which end with it.
void write_or_complain(const std::string& path, std::string_view content);

/// The path, if nobody but this user and root can have written what lies there; else the command ends.
std::string trusted(std::string path);

/// Before a command does what takes long: a file that could not be written afterwards is the user's to mend. None is left
/// behind, and none that is there is changed.
void check_writable(const std::string& path);

}  // namespace salus::cli
