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
    kReadWrite,  ///< made if need be
    kAppend,     ///< made if need be
    kReplace,    ///< emptied, or made; each write goes to its end
    kNew,        ///< an error if it is there
    kDirectory,  ///< itself, not a link to one
};
/// errno says why there is none. `mode` is for a file that is made.
Descriptor open_file(const std::string& path, Open how, unsigned mode = 0600);
/// A second descriptor of the same file.
Descriptor duplicate(int file);

/// The file is known by this number, too, also to a program that this process becomes.
void put_at(int file, int number);
/// The end to read from and the one to write to. Nothing, and errno, if there is none.
std::optional<std::pair<Descriptor, Descriptor>> make_pipe();

/// Errors say "cannot open 'path': why" and the like.
Result<std::string> read_file(const std::string& path);
struct Written {};
Result<Written> write_file(const std::string& path, std::string_view content);
/// Whoever reads it, whenever we are killed, finds the old content or the new one, as a whole.
Result<Written> replace_file(const std::string& path, std::string_view content);

/// False, and errno, if not all of it could be written. A small text is written at once, or not at all.
bool write_all(int file, std::string_view text);
bool write_all_at(int file, std::span<const std::byte> bytes, std::int64_t position);

/// Memory that is passed on as a file, and can be sealed. errno says why there is none.
Descriptor make_memory_file(const char* name);
bool seal_size(int memory_file);
/// Neither can further seals be added.
bool seal_against_shrinking(int memory_file);
/// Of this size, and it stays at least that large.
bool has_lasting_size(int memory_file, std::size_t size);

}  // namespace salus::os
