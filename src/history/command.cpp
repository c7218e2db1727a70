#include "history/command.h"

#include <algorithm>

#include "base/check.h"

namespace salus::history {
namespace {

/// FNV-1a, 64 bits. Every word ends with a byte of its own, so that "a b" and "ab" differ.
class Hash {
public:
    Hash& add(std::string_view word) {
        for (const char c : word) add_byte(static_cast<unsigned char>(c));
        add_byte(0);
        return *this;
    }
    std::uint64_t value() const { return value_ != 0 ? value_ : 1; }  // 0 says that there is none

private:
    void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100'0000'01b3; }

    std::uint64_t value_ = 0xcbf2'9ce4'8422'2325;
};

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// python, python3, python3.11
bool is_python(std::string_view name) {
    if (!name.starts_with("python")) return false;
    return name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

/// What python is told to run, behind its own options: a script, "-m" and a module, "-c" and a text; empty: nothing.
std::vector<std::string> python_program(const std::vector<std::string>& words) {
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "-" || !word.starts_with('-')) return {word};
        if (word == "--check-hash-based-pycs") ++i;
        if (word.starts_with("--")) continue;
        // Letters may stand together, "-um module"; these take the rest of the word, or the next one.
        const std::size_t at = word.find_first_of("mcWX", 1);
        if (at == std::string::npos) continue;
        const std::string value = at + 1 < word.size() ? word.substr(at + 1) : ++i < words.size() ? words[i] : "";
        if (word[at] == 'm' || word[at] == 'c') return {std::string("-") + word[at], value};
    }
    return {};
}

}  // namespace

CommandKeys keys_of(const std::vector<std::string>& words, std::string_view directory) {
    SALUS_CHECK(!words.empty(), "a command has a name");
    Hash command;
    command.add(directory);
    for (const std::string& word : words) command.add(word);
    Hash program;
    program.add(directory);
    const std::string_view name = file_name(words.front());
    if (is_python(name)) {
        program.add(name);
        for (const std::string& word : python_program(words)) program.add(word);
    } else {
        program.add(words.front());
    }
    return {command.value(), program.value()};
}

std::string text_of(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    return text;
}

}  // namespace salus::history
