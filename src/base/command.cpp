#include "base/command.h"

#include <algorithm>

#include "base/check.h"
#include "base/python_command.h"

namespace salus {
namespace {

/// FNV-1a, 64 bits. Every word ends with a byte of its own, so that "a b" and "ab" differ.
class Hash {
public:
    Hash& add(std::string_view word) {
        for (const char c : word) add_byte(static_cast<unsigned char>(c));
        add_byte(0);
        return *this;
    }
    std::uint64_t value() const { return value_ != 0 ? value_ : 1; }  // 0 means none

private:
    void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100'0000'01b3; }

    std::uint64_t value_ = 0xcbf2'9ce4'8422'2325;
};

}  // namespace

CommandKeys keys_of(const std::vector<std::string>& words, std::string_view directory) {
    SALUS_CHECK(!words.empty(), "a command has a name");
    Hash command;
    command.add(directory);
    for (const std::string& word : words) command.add(word);
    Hash program;
    program.add(directory);
    if (const auto python = parse_python(words)) {
        program.add(std::string_view(words.front()).substr(words.front().rfind('/') + 1));
        if (python->runs == PythonCommand::Runs::kModule) program.add("-m");
        if (python->runs == PythonCommand::Runs::kCode) program.add("-c");
        if (python->runs != PythonCommand::Runs::kNothing) program.add(python->program);
    } else {
        program.add(words.front());
    }
    return {command.value(), program.value()};
}

std::string text_of_command(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    return text;
}

}  // namespace salus
