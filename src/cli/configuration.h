// What `salus` reads from its configuration files: defaults of `salus run`.
#pragma once

#include <string>
#include <vector>

namespace salus::cli {

struct Configuration {
    bool require = false;     ///< as --require
    std::string not_trusted;  ///< why a file was not read, in one line: another user could have written it
};

/// The user's file decides, else the machine's.
std::vector<std::string> configuration_files();

/// The first file that says whether sharing is required decides. A missing file is empty. Throws UsageError if a file is
/// invalid.
Configuration read_configuration(const std::vector<std::string>& files);

}  // namespace salus::cli
