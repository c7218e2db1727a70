#include "cli/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/commands.h"
#include "os/file.h"
#include "os/trust.h"

namespace salus::cli {
void write_or_complain(const std::string& path, std::string_view content) {
    if (Result<os::Written> written = os::write_file(path, content); !written) throw Failure{written.error()};
}

std::string trusted(std::string path) {
    if (const auto why = os::why_distrusted(path)) throw Failure{*why};
    return path;
}

void check_writable(const std::string& path) {
    const bool is_new = ::access(path.c_str(), F_OK) != 0;
    if (!os::open_file(path, os::Open::kAppend)) throw UsageError{"cannot write '" + path + "': " + std::strerror(errno)};
    if (is_new) ::unlink(path.c_str());
}

}  // namespace salus::cli
