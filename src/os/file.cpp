#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace salus::os {
namespace {

int flags_of(Open how) {
    switch (how) {
        case Open::kRead: return O_RDONLY;
        case Open::kReadWrite: return O_RDWR | O_CREAT;
        case Open::kAppend: return O_WRONLY | O_CREAT | O_APPEND;
        case Open::kReplace: return O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
        case Open::kNew: return O_WRONLY | O_CREAT | O_EXCL;
        case Open::kDirectory: return O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    }
    return O_RDONLY;
}

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Error failed_to(const char* what, const std::string& path) {
    return Error{std::string("cannot ") + what + " '" + path + "': " + std::strerror(errno)};
}

/// `write` takes what is left and its offset, and returns as write() does.
template <typename Write>
bool write_until_done(std::span<const std::byte> bytes, const Write& write) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count = write(bytes.subspan(done), done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        done += static_cast<std::size_t>(count);
    }
    return true;
}

}  // namespace

Descriptor open_file(const std::string& path, Open how, unsigned mode) {
    return Descriptor(::open(path.c_str(), flags_of(how) | O_CLOEXEC, mode));
}

Descriptor open_log(const std::string& path, std::int64_t size_max) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= size_max)
        std::rename(path.c_str(), (path + ".1").c_str());
    return open_file(path, Open::kAppend);
}

bool is_file_at(int file, const std::string& path) {
    struct stat ours {
    }, theirs{};
    return ::fstat(file, &ours) == 0 && ::stat(path.c_str(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

/// Processes below a unit's inherit the variable, whatever their output is.
bool goes_to_journal(int file) {
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat status {};
    return stream && ::fstat(file, &status) == 0 &&
           stream == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

Descriptor duplicate(int file) { return Descriptor(::fcntl(file, F_DUPFD_CLOEXEC, 0)); }

void put_at(int file, int number) {
    if (file == number) ::fcntl(file, F_SETFD, 0);
    else ::dup2(file, number);
}

std::optional<std::pair<Descriptor, Descriptor>> make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

Result<std::string> read_file(const std::string& path) {
    const File file(std::fopen(path.c_str(), "rbe"));
    if (!file) return failed_to("open", path);
    std::string content;
    char block[65536];
    while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) content.append(block, got);
    if (std::ferror(file.get())) return failed_to("read", path);
    return content;
}

Result<Written> write_file(const std::string& path, std::string_view content) {
    File file(std::fopen(path.c_str(), "wbe"));
    if (!file) return failed_to("write", path);
    const bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
    if (!written || std::fclose(file.release()) != 0) return failed_to("write", path);
    return Written{};
}

Result<Written> replace_file(const std::string& path, std::string_view content) {
    const std::string draft = path + ".new";
    Result<Written> written = write_file(draft, content);
    if (written && std::rename(draft.c_str(), path.c_str()) != 0) return failed_to("write", path);
    return written;
}

// ext4 writes a new file's data out before the file takes the place of another one, and before a file that was truncated is
// closed (auto_da_alloc). On a busy disk that takes seconds. It does so neither for a draft that is made anew, nor where two
// files only change their names.
Result<Written> replace_file_at_once(const std::string& path, std::string_view content) {
    const std::string draft = path + ".new";
    ::unlink(draft.c_str());
    Result<Written> written = write_file(draft, content);
    if (!written) return written;
    if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) ::unlink(draft.c_str());
    else if (std::rename(draft.c_str(), path.c_str()) != 0) return failed_to("write", path);  // there is none yet
    return written;
}

bool write_all(int file, std::string_view text) {
    return write_until_done(std::as_bytes(std::span(text)), [file](std::span<const std::byte> left, std::size_t) {
        return ::write(file, left.data(), left.size());
    });
}

bool write_all_at(int file, std::span<const std::byte> bytes, std::int64_t position) {
    constexpr std::size_t kAtOnce = 64u << 20;
    return write_until_done(bytes, [&](std::span<const std::byte> left, std::size_t done) {
        return ::pwrite(file, left.data(), std::min(left.size(), kAtOnce), position + static_cast<std::int64_t>(done));
    });
}

Descriptor make_memory_file(const char* name) { return Descriptor(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)); }

bool seal_size(int memory_file) { return ::fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0; }

bool seal_against_shrinking(int memory_file) { return ::fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0; }

bool has_lasting_size(int memory_file, std::size_t size) {
    const int seals = ::fcntl(memory_file, F_GET_SEALS);
    struct stat status {};
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(memory_file, &status) == 0 &&
           status.st_size == static_cast<off_t>(size);
}

}  // namespace salus::os
