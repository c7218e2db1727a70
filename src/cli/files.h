// Whole files in and out, with an error that names the file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace salus::cli {

Result<std::string> read_file(const std::string& path);

struct Written {};
Result<Written> write_file(const std::string& path, std::string_view content);

/// The same for commands: what cannot be written is the user's to mend.
void write_or_complain(const std::string& path, std::string_view content);

}  // namespace salus::cli
