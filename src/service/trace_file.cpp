#include "service/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/text.h"
#include "os/file.h"
#include "service/log.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

}  // namespace

TraceFile::TraceFile(std::string directory, Bytes limit, const std::string& header)
    : current_(directory + "/trace"), limit_(limit) {
    // Earlier versions had two files.
    if (!fs::exists(piece(1))) std::rename((current_ + ".previous").c_str(), piece(1).c_str());
    if (rename_pieces() && open()) write(header + "\n");
}

/// The numbers of those that are there.
std::vector<unsigned> TraceFile::older_pieces() const {
    const fs::path path(current_);
    const std::string start = path.filename().string() + ".";
    std::vector<unsigned> numbers;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), error)) {
        const std::string name = entry.path().filename().string();
        const auto number = name.starts_with(start) ? parse_integer(name.substr(start.size())) : std::nullopt;
        if (number && *number > 0 && *number < 1'000'000 && piece(static_cast<unsigned>(*number)).ends_with(name))
            numbers.push_back(static_cast<unsigned>(*number));
    }
    std::ranges::sort(numbers);
    return numbers;
}

/// Makes room for a new current piece. Something that is no file of ours stays where it is.
bool TraceFile::rename_pieces() {
    std::error_code error;
    if (!fs::is_regular_file(fs::symlink_status(current_, error))) return true;
    std::vector<unsigned> numbers = older_pieces();
    unsigned in_a_row = 0;
    while (in_a_row < numbers.size() && numbers[in_a_row] == in_a_row + 1) ++in_a_row;
    bool renamed = true;
    for (unsigned number = in_a_row; number > 0 && renamed; --number) {
        renamed = fs::is_regular_file(fs::symlink_status(piece(number), error)) &&
                  std::rename(piece(number).c_str(), piece(number + 1).c_str()) == 0;
    }
    renamed = renamed && std::rename(current_.c_str(), piece(1).c_str()) == 0;
    if (renamed) remove_surplus();
    else log(LogLevel::kWarning, "recording of the trace stops: {} cannot be renamed: {}", current_, std::strerror(errno));
    return renamed;
}

/// So that the current piece has room, too.
void TraceFile::remove_surplus() const {
    const fs::file_time_type oldest = fs::file_time_type::clock::now() - std::chrono::nanoseconds(kKeptFor.ns);
    Bytes sum = piece_max();
    std::error_code error;
    bool keep = true;
    for (const unsigned number : older_pieces()) {
        const std::string path = piece(number);
        if (!fs::is_regular_file(fs::symlink_status(path, error))) continue;
        sum += Bytes{static_cast<std::int64_t>(fs::file_size(path, error))};
        keep = keep && sum <= limit_ && number <= kPiecesMax && fs::last_write_time(path, error) >= oldest;
        if (!keep) fs::remove(path, error);
    }
}

bool TraceFile::open() {
    file_ = os::open_file(current_, os::Open::kReplace);
    written_ = {};
    ends_at_ = kNever;
    if (!file_) log(LogLevel::kWarning, "cannot record a trace: {}: {}", current_, std::strerror(errno));
    return static_cast<bool>(file_);
}

void TraceFile::begin_piece() {
    if (!file_) return;
    if (!rename_pieces()) return file_.reset();
    ++older_;
    open();
}

std::vector<std::string> TraceFile::pieces() const {
    std::vector<std::string> paths;
    for (unsigned number = older_; number > 0; --number) paths.push_back(piece(number));
    paths.push_back(current_);
    return paths;
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
        if (written_ + Bytes{static_cast<std::int64_t>(text.size() + piece.size())} > piece_max()) {
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
        if (record.at >= ends_at_) {
            write(text);
            text.clear();
            begin_piece();
        }
        if (ends_at_ == kNever) ends_at_ = record.at + kPieceSpan;
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
    if (!file_ || text.empty()) return;
    if (written_ > Bytes{} && written_ + Bytes{static_cast<std::int64_t>(text.size())} > piece_max()) {
        begin_piece();
        if (!file_) return;
    }
    written_.count += static_cast<std::int64_t>(text.size());
    if (os::write_all(file_.get(), text)) return;
    log(LogLevel::kWarning, "recording of the trace stops: {}: {}", current_, std::strerror(errno));
    file_.reset();
}

}  // namespace salus::service
