// Files: opened with close-on-exec, read and written as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::os {

enum class Open {
    kRead,
    kReadWrite,  ///< created if missing
    kAppend,     ///< created if missing
    kReplace,    ///< emptied, or created; each write goes to its end
    kNew,        ///< an error if the file exists
    kDirectory,  ///< a directory itself, not a link to one
};
/// On failure the descriptor is empty and errno says why. `mode` is for a file that is created.
Descriptor open_file(const std::string& path, Open how, unsigned mode = 0600);
/// For a log: opens it at its end. If it has reached `size_max`, it becomes `path`.1 and a new one begins.
Descriptor open_log(const std::string& path, std::int64_t size_max);
/// Whether this descriptor is the file of that path.
bool is_file_at(int file, const std::string& path);
/// Whether systemd reads what is written there into its journal.
bool goes_to_journal(int file);
/// A second descriptor of the same file.
Descriptor duplicate(int file);

/// Makes the file available under this descriptor number, too, and keeps it open across exec.
void put_at(int file, int number);
/// The end to read from and the end to write to. Nothing, with errno set, on failure.
std::optional<std::pair<Descriptor, Descriptor>> make_pipe();

/// Errors say "cannot open 'path': why" and the like.
Result<std::string> read_file(const std::string& path);
struct Written {};
Result<Written> write_file(const std::string& path, std::string_view content);
/// Atomic: even if we are killed, readers find either the whole old content or the whole new content.
Result<Written> replace_file(const std::string& path, std::string_view content);
/// The same, and it waits for no disk: when the machine loses power, the file may be empty afterwards.
Result<Written> replace_file_at_once(const std::string& path, std::string_view content);

/// False, with errno set, if not all of it could be written. A small text is written completely or not at all.
bool write_all(int file, std::string_view text);
bool write_all_at(int file, std::span<const std::byte> bytes, std::int64_t position);

/// Memory that can be passed to other processes as a file, and sealed. On failure errno says why.
Descriptor make_memory_file(const char* name);
bool seal_size(int memory_file);
/// Also forbids further seals.
bool seal_against_shrinking(int memory_file);
/// Whether it has this size and cannot shrink below it.
bool has_lasting_size(int memory_file, std::size_t size);

}  // namespace salus::os
