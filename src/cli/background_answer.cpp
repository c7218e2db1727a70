#include "cli/background_answer.h"

#include <unistd.h>

#include <sstream>
#include <utility>

#include "base/text.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::cli {
namespace {

std::string text_in(int file) {
    std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(file, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

}  // namespace

void BackgroundAnswer::want(Instant now) {
    if (child_ != 0 || (last_ && now - answered_ < kFresh)) return;
    printed_ = os::make_memory_file("salus-answer");
    os::Launch launch{command_, os::environment_with({})};
    launch.output = printed_.get();
    launch.fresh = true;
    const Result<int> child = os::spawn(launch);
    if (child) child_ = child.value();
    else last_ = Result<std::string>(Error{child.error()}), answered_ = now;
}

void BackgroundAnswer::look(Instant now) {
    const auto end = child_ == 0 ? std::nullopt : os::reap(child_);
    if (!end) return;
    child_ = 0;
    answered_ = now;
    std::string text = text_in(printed_.get());
    printed_.reset();
    std::istringstream lines(text);
    last_ = end->well() ? Result<std::string>(std::move(text)) : Result<std::string>(Error{last_line_of(lines)});
}

}  // namespace salus::cli
