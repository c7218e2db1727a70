#include "cli/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cli/commands.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

Error failed(const char* what, const std::string& path) {
    return Error{std::string("cannot ") + what + " '" + path + "': " + std::strerror(errno)};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
    File file(std::fopen(path.c_str(), "rb"));
    if (!file) return failed("open", path);
    std::string content;
    char block[65536];
    while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) content.append(block, got);
    if (std::ferror(file.get())) return failed("read", path);
    return content;
}

Result<Written> write_file(const std::string& path, std::string_view content) {
    File file(std::fopen(path.c_str(), "wb"));
    if (!file) return failed("write", path);
    const bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
    if (!written || std::fclose(file.release()) != 0) return failed("write", path);
    return Written{};
}

void write_or_complain(const std::string& path, std::string_view content) {
    if (Result<Written> written = write_file(path, content); !written) throw Failure{written.error()};
}

std::string trusted(std::string path) {
    if (const auto why = os::why_distrusted(path)) throw Failure{*why};
    return path;
}

void check_writable(const std::string& path) {
    const bool is_new = ::access(path.c_str(), F_OK) != 0;
    if (const File file(std::fopen(path.c_str(), "ab")); !file) throw UsageError{failed("write", path).message};
    if (is_new) ::unlink(path.c_str());
}

}  // namespace salus::cli
