#include "service/trace_view.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/text.h"
#include "os/file.h"
#include "os/socket.h"

namespace salus::service {
namespace {

/// Above every user id that the kernel gives.
constexpr std::uint32_t kFirstPseudonym = 4'000'000'000;
constexpr std::string_view kUser = " user=";
constexpr std::string_view kName = " name=";
constexpr std::string_view kAttach = " attach ";
/// In one round of the service's loop.
constexpr int kPacketsAtOnce = 8;

}  // namespace

std::string TraceView::of(std::string_view line) {
    if (!only_numbers_) return std::string(line) + "\n";
    const auto without_name = [](const std::string& note) { return note.substr(0, note.find(kName)) + "\n"; };
    if (line.starts_with('#') && line.find(kName) != std::string_view::npos) {
        const std::string before = std::exchange(note_, std::string(line));
        return before.empty() ? "" : without_name(before);  // nobody attached after it
    }
    std::string shown(line);
    shown += '\n';
    const std::size_t at = line.starts_with('@') ? line.find(kUser) : std::string_view::npos;
    if (at == std::string_view::npos) return shown;
    const std::size_t start = at + kUser.size();
    const std::size_t end = std::min(line.find(' ', start), line.size());
    const std::string_view user = line.substr(start, end - start);
    const bool is_own = user == std::to_string(uid_);
    if (!is_own && user != "0") {
        const auto next = kFirstPseudonym + static_cast<std::uint32_t>(others_.size());
        const std::uint32_t pseudonym = others_.emplace(std::string(user), next).first->second;
        shown.replace(start, end - start, std::to_string(pseudonym));
    }
    if (line.find(kAttach) == std::string_view::npos || note_.empty()) return shown;
    const std::string note = std::exchange(note_, {});
    return (is_own ? note + "\n" : without_name(note)) + shown;
}

TraceStream::TraceStream(const std::vector<std::string>& files, TraceView view, os::Descriptor to, std::uint64_t last_bytes)
    : view_(std::move(view)), to_(std::move(to)) {
    for (const std::string& path : files) {
        os::Descriptor file = os::open_file(path, os::Open::kRead);
        struct stat status {};
        if (!file || ::fstat(file.get(), &status) != 0) continue;
        sources_.push_back({std::move(file), status.st_size});
    }
    if (last_bytes > 0 && std::in_range<std::int64_t>(last_bytes)) skip_all_but(static_cast<std::int64_t>(last_bytes));
}

/// A reader that follows the trace asks again and again: it must not cost the service a reading of all of it.
void TraceStream::skip_all_but(std::int64_t last_bytes) {
    std::int64_t surplus = -last_bytes;
    for (const Source& source : sources_) surplus += source.left;
    for (Source& source : sources_) {
        const std::int64_t skipped = std::clamp<std::int64_t>(surplus, 0, source.left);
        surplus -= skipped;
        source.left -= skipped;
        if (skipped == 0 || source.left == 0) continue;
        ::lseek(source.file.get(), skipped, SEEK_SET);
        in_mid_line_ = true;
    }
}

/// False: there is no more.
bool TraceStream::read_more() {
    std::array<char, kPacketMax> block;
    while (current_ < sources_.size()) {
        Source& source = sources_[current_];
        const auto wanted = std::min<std::int64_t>(source.left, static_cast<std::int64_t>(block.size()));
        const ssize_t got = wanted > 0 ? ::read(source.file.get(), block.data(), static_cast<std::size_t>(wanted)) : 0;
        if (got <= 0) {
            ++current_;
            continue;
        }
        source.left -= got;
        unfinished_.append(block.data(), static_cast<std::size_t>(got));
        std::size_t start = 0;
        for (std::size_t end = unfinished_.find('\n'); end != std::string::npos; end = unfinished_.find('\n', start)) {
            if (!std::exchange(in_mid_line_, false))
                ready_ += view_.of(std::string_view(unfinished_).substr(start, end - start));
            start = end + 1;
        }
        unfinished_.erase(0, start);
        return true;
    }
    return false;
}

bool TraceStream::go_on() {
    for (int packets = 0; packets < kPacketsAtOnce; ++packets) {
        while (ready_.empty()) {
            if (!read_more()) return false;
        }
        const std::string_view packet = std::string_view(ready_).substr(0, kPacketMax);
        if (!os::send_packet(to_.get(), std::as_bytes(std::span(packet)))) return errno == EAGAIN;
        ready_.erase(0, packet.size());
    }
    return true;
}

}  // namespace salus::service
