#include "history/untold.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>

#include "base/text.h"
#include "os/file.h"
#include "os/trust.h"

namespace salus::history {
namespace {

std::string directory_in(const std::string& state) { return state + "/ended"; }

std::uint64_t key_in(std::string_view text) {
    std::uint64_t key = 0;
    std::from_chars(text.data(), text.data() + text.size(), key);
    return key;
}

}  // namespace

std::string text_of(const UntoldRun& untold) {
    const Run& run = untold.run;
    return "service " + untold.service + "\nstatus " + std::to_string(run.status) + "\ntook_ns " +
           std::to_string(run.took.ns) + "\nended_unix_s " + std::to_string(run.ended_at_s) + "\ncommand_key " +
           std::to_string(run.keys.command) + "\nprogram_key " + std::to_string(run.keys.program) + "\ncommand " +
           run.command + "\n";
}

Result<UntoldRun> untold_in(std::string_view text) {
    UntoldRun untold;
    Run& run = untold.run;
    run.status = -1;
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t blank = line.find(' ');
        if (blank == std::string_view::npos) continue;
        const std::string_view name = line.substr(0, blank), value = line.substr(blank + 1);
        if (name == "service") untold.service = value;
        if (name == "status") run.status = static_cast<int>(parse_integer(value).value_or(-1));
        if (name == "took_ns") run.took = {parse_integer(value).value_or(0)};
        if (name == "ended_unix_s") run.ended_at_s = parse_number(value).value_or(0);
        if (name == "command_key") run.keys.command = key_in(value);
        if (name == "program_key") run.keys.program = key_in(value);
        if (name == "command") run.command = value;
    }
    if (untold.service.empty() || run.status < 0 || run.keys.command == 0) return Error{"it is incomplete"};
    return untold;
}

Result<bool> keep_untold(const std::string& state, const std::string& name, const UntoldRun& untold) {
    const std::string directory = directory_in(state);
    if (const Result<bool> made = os::make_private_directory(directory); !made) return made;
    std::error_code error;
    const auto there = std::distance(std::filesystem::directory_iterator(directory, error), {});
    if (there >= static_cast<std::ptrdiff_t>(kUntoldMax)) return Error{directory + " is full"};
    const Result<os::Written> written = os::replace_file(directory + "/" + name, text_of(untold));
    return written ? Result<bool>(true) : Error{written.error()};
}

std::vector<UntoldRun> take_untold(const std::string& state, const std::function<bool(const std::string& service)>& is_for) {
    std::vector<UntoldRun> taken;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory_in(state), error)) {
        const std::string path = entry.path().string();
        if (path.ends_with(".new") || os::why_distrusted(path)) continue;  // the first: not finished yet
        const Result<std::string> text = os::read_file(path);
        const Result<UntoldRun> untold = text ? untold_in(text.value()) : Result<UntoldRun>(Error{text.error()});
        if (!untold || !is_for(untold.value().service) || ::unlink(path.c_str()) != 0) continue;
        taken.push_back(untold.value());
    }
    std::ranges::sort(taken, {}, [](const UntoldRun& untold) { return untold.run.ended_at_s; });
    return taken;
}

}  // namespace salus::history
