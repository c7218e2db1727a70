#include "service/trace_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "os/file.h"
#include "service/log.h"

namespace salus::service {

TraceFile::TraceFile(std::string directory, Bytes limit, const std::string& header)
    : current_(directory + "/trace"), previous_(directory + "/trace.previous"), limit_(limit) {
    ::unlink(previous_.c_str());
    if (open()) write(header + "\n");
}

bool TraceFile::open() {
    file_ = os::open_file(current_, os::Open::kReplace);
    written_ = {};
    if (!file_) log(LogLevel::kWarning, "cannot record a trace: {}: {}", current_, std::strerror(errno));
    return static_cast<bool>(file_);
}

void TraceFile::record(const Event& event, Instant at, std::span<const Action> actions) {
    if (file_) pending_.emplace_back(Record{event, at, {actions.begin(), actions.end()}});
}

void TraceFile::name_client(ClientId client, std::uint32_t job, std::string_view name) {
    if (!file_) return;
    pending_.emplace_back(fmt::format("# client={} job={} name={}\n", index_of(client), job, name));
}

void TraceFile::flush() {
    if (pending_.empty()) return;
    std::string text;
    std::string piece;
    // An event that no longer fits begins the next file, however much is pending.
    const auto put = [&] {
        if (written_.count + static_cast<std::int64_t>(text.size() + piece.size()) > limit_.count / 2) {
            write(text);
            text.clear();
        }
        text += piece;
        piece.clear();
    };
    for (const auto& entry : pending_) {
        if (const auto* line = std::get_if<std::string>(&entry)) {
            piece = *line;
            put();
            continue;
        }
        const auto& record = std::get<Record>(entry);
        piece += format_event(record.event, record.at);
        piece += '\n';
        for (const Action& action : record.actions) {
            piece += format_action(action);
            piece += '\n';
        }
        put();
    }
    pending_.clear();
    write(text);
}

void TraceFile::write(std::string_view text) {
    if (!file_) return;
    if (written_.count + static_cast<std::int64_t>(text.size()) > limit_.count / 2) {
        if (std::rename(current_.c_str(), previous_.c_str()) != 0) {
            log(LogLevel::kWarning, "recording of the trace stops: {}: {}", previous_, std::strerror(errno));
            return file_.reset();
        }
        if (!open()) return;
    }
    written_.count += static_cast<std::int64_t>(text.size());
    if (os::write_all(file_.get(), text)) return;
    log(LogLevel::kWarning, "recording of the trace stops: {}: {}", current_, std::strerror(errno));
    file_.reset();
}

}  // namespace salus::service
