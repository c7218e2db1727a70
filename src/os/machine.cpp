#include "os/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "os/file.h"

namespace salus::os {
namespace {

/// The only word in the file; empty: there is none.
std::string word_in_file(const std::string& path) {
    const Result<std::string> text = read_file(path);
    std::string word = text ? text.value() : std::string();
    std::erase_if(word, [](unsigned char c) { return std::isspace(c) != 0; });
    return word;
}

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "";
    std::string host(name.data());
    std::ranges::replace_if(
        host, [](unsigned char c) { return c <= 0x20 || c == '/' || c == 0x7f; }, '_');
    return host;
}

}  // namespace

Machine this_machine() {
    return {host_name(), word_in_file("/etc/machine-id"), word_in_file("/proc/sys/kernel/random/boot_id")};
}

std::string text_of(const Machine& machine) {
    return "host=" + machine.host + " id=" + machine.id + " boot=" + machine.boot + "\n";
}

Machine machine_in(std::string_view text) {
    Machine machine;
    for (const std::string_view word : split(text.substr(0, text.find('\n')), ' ')) {
        if (word.starts_with("host=")) machine.host = word.substr(5);
        if (word.starts_with("id=")) machine.id = word.substr(3);
        if (word.starts_with("boot=")) machine.boot = word.substr(5);
    }
    return machine;
}

bool is_same(const Machine& a, const Machine& b) {
    if (!a.boot.empty() && a.boot == b.boot) return true;
    if (!a.id.empty() && !b.id.empty()) return a.id == b.id;
    return a.host == b.host;
}

}  // namespace salus::os
