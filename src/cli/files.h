// Files that a command line names.
#pragma once

#include <string>
#include <string_view>

namespace salus::cli {

/// Ends the command if the file cannot be written.
void write_or_complain(const std::string& path, std::string_view content);

/// The path, if nobody but this user and root can have written what lies there; else the command ends.
std::string trusted(std::string path);

/// Before a command does what takes long: a file that could not be written afterwards is the user's to mend. None is left
/// behind, and none that is there is changed.
void check_writable(const std::string& path);

}  // namespace salus::cli
