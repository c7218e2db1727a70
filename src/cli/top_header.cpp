#include "cli/top_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/text.h"
#include "cli/line_writer.h"

namespace salus::cli {
namespace {

constexpr int kLabelWidth = 8;
constexpr int kTextWidth = 44;       ///< beside a bar, where there is room
constexpr int kHeightForTurns = 14;  ///< a lower screen has only the most needed lines

int bar_width(const TopOptions& options) { return std::clamp(options.width - kLabelWidth - kTextWidth, 10, 100); }

// Signs of a bar of memory that are no jobs.
constexpr char kLanes = '=';
constexpr char kOthers = '+';
constexpr char kFree = '.';

/// Runs of equal signs are one piece.
void add_signs(LineWriter& line, const std::string& signs) {
    for (std::size_t i = 0; i < signs.size();) {
        std::size_t end = signs.find_first_not_of(signs[i], i);
        if (end == std::string::npos) end = signs.size();
        const bool is_job = std::isalnum(static_cast<unsigned char>(signs[i])) != 0;
        std::uint32_t job = 1;
        while (is_job && sign_of(job) != signs[i]) ++job;
        const Style otherwise = signs[i] == kFree ? Style::kDim : Style::kBar;
        line.add(signs.substr(i, end - i), is_job ? style_of_job(job) : otherwise);
        i = end;
    }
}

Line title_line(const Status& status, const TopOptions& options) {
    // A job may have several clients, and a row for each.
    std::map<std::uint32_t, std::set<JobState>> jobs;
    for (const JobStatus& row : status.jobs) jobs[row.job].insert(row.state);
    const auto in_state = [&](JobState state) {
        return std::count_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.second.contains(state); });
    };
    const auto running = in_state(JobState::kRunning);
    const auto waiting = std::count_if(jobs.begin(), jobs.end(), [](const auto& job) {
        return job.second.contains(JobState::kWaiting) && !job.second.contains(JobState::kRunning);
    });
    LineWriter line(options);
    line.add("Salus", Style::kBold);
    line.add(fmt::format("   {} on {}   up {}   ", printable(status.service.policy), printable(status.service.device),
                         format_seconds(status.service.uptime.seconds())));
    line.add(fmt::format("{} job{}", jobs.size(), jobs.size() == 1 ? "" : "s"), Style::kBold);
    line.add(fmt::format(": {} running, {} waiting", running, waiting));
    if (!options.filter.empty()) line.add(fmt::format("   filter: {}", printable(options.filter)), Style::kWarning);
    return std::move(line).take();
}

Line use_line(const Status& status, const TopHistory& history, const TopOptions& options) {
    constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    constexpr std::array<const char*, 9> kPlainBlocks = {" ", ".", ".", ":", "-", "=", "+", "#", "#"};
    const int width = bar_width(options);
    const std::vector<double> use = history.use(static_cast<std::size_t>(width));
    std::string bars(static_cast<std::size_t>(width) - use.size(), ' ');
    for (const double share : use) {
        const auto height = static_cast<std::size_t>(std::lround(share * 8));
        bars += options.unicode ? kBlocks[height] : kPlainBlocks[height];
    }
    LineWriter line(options);
    line.cell("device", kLabelWidth, Align::kLeft, Style::kPlain);
    line.add(bars, Style::kBar);
    line.add(use.empty() ? "   - % in turns" : fmt::format(" {:3.0f} % in turns", 100 * use.back()));
    // What the driver says; on the host it would be the same again.
    const ServiceStatus& service = status.service;
    if (service.devices.size() < 2 && service.device != "host" && service.busy_share)
        line.add(fmt::format(", GPU busy {:.0f} %", 100 * *service.busy_share));
    return std::move(line).take();
}

/// Jobs by their signs, then lanes, what else is reserved, and what is free.
std::string memory_signs(const Status& status, int width) {
    const auto capacity = static_cast<double>(std::max(status.service.capacity.count, std::int64_t{1}));
    std::string signs;
    Bytes sum;
    const auto add = [&](Bytes bytes, char sign) {
        sum += bytes;
        const auto end = std::lround(std::clamp(static_cast<double>(sum.count) / capacity, 0.0, 1.0) * width);
        signs.resize(std::max(static_cast<std::size_t>(end), signs.size()), sign);
    };
    for (const JobStatus& row : status.jobs) {
        const bool is_there = row.activity && row.state != JobState::kPagedOut && row.state != JobState::kRefused;
        if (is_there) add(row.activity->persistent, sign_of(row.job));
    }
    for (const LaneStatus& lane : status.service.lanes) add(lane.charge, kLanes);
    if (status.service.reserved > sum) add(status.service.reserved - sum, kOthers);
    signs.resize(static_cast<std::size_t>(width), kFree);
    return signs;
}

Line memory_line(const Status& status, const std::string& label, const TopOptions& options) {
    const ServiceStatus& service = status.service;
    const double share = service.capacity.count > 0 ? service.reserved.mib() / service.capacity.mib() : 0;
    Bytes lanes, peaks;
    for (const LaneStatus& lane : service.lanes) lanes += lane.charge;
    for (const JobStatus& row : status.jobs) {
        if (row.activity && row.activity->lane != kNoLane) peaks += row.activity->ephemeral;
    }
    LineWriter line(options);
    line.cell(label, kLabelWidth, Align::kLeft, Style::kPlain);
    add_signs(line, memory_signs(status, bar_width(options)));
    line.add(
        fmt::format(" {:3.0f} %  {} of {}", 100 * share, format_bytes(service.reserved), format_bytes(service.capacity)));
    if (peaks > lanes) line.add(fmt::format(", lanes save {}", format_bytes(peaks - lanes)));
    if (!service.lost.empty()) line.add(", lost", Style::kWarning);
    return std::move(line).take();
}

Line turns_line_of(unsigned gpu, const TopHistory& history, const TopOptions& options) {
    LineWriter line(options);
    line.cell(fmt::format("turns {}", gpu), kLabelWidth, Align::kLeft, Style::kPlain);
    add_signs(line, history.turns(static_cast<std::size_t>(bar_width(options)), gpu));
    line.add(" 10 s");
    return std::move(line).take();
}

Line turns_line(const ServiceStatus& service, const Rates& rates, const TopHistory& history, const TopOptions& options) {
    const auto per_s = [](std::optional<double> rate) { return rate ? format_rate(*rate) : "-"; };
    LineWriter line(options);
    line.cell("turns", kLabelWidth, Align::kLeft, Style::kPlain);
    add_signs(line, history.turns(static_cast<std::size_t>(bar_width(options))));
    line.add(fmt::format(" 10 s  {}/s, {} switches/s, {} page-outs", per_s(rates.turns_per_s()),
                         per_s(rates.switches_per_s()), service.statistics.page_outs));
    if (!service.trace.recording) line.add("   the trace is no longer recorded", Style::kWarning);
    return std::move(line).take();
}

Line lanes_line(const Status& status, const TopOptions& options) {
    LineWriter line(options);
    line.cell("lanes", kLabelWidth, Align::kLeft, Style::kPlain);
    if (status.service.lanes.empty()) line.add("none");
    for (const LaneStatus& lane : status.service.lanes) {
        const std::string holder = holder_text(status, lane);
        line.add(fmt::format("{}: {} ", index_of(lane.lane), format_bytes(lane.size)));
        line.add(holder.empty() ? "free" : holder, holder.empty() ? Style::kDim : Style::kRunning);
        line.add("   ");
    }
    return std::move(line).take();
}

Line gates_line(const std::string& text, const TopOptions& options) {
    LineWriter line(options);
    line.cell("gates", kLabelWidth, Align::kLeft, Style::kPlain);
    line.add(text);
    return std::move(line).take();
}

}  // namespace

Style style_of_job(std::uint32_t job) {
    constexpr std::uint32_t kStyles = 5;  // jobs of one sign also have one style
    return static_cast<Style>(static_cast<std::uint32_t>(Style::kJob1) + (job + kSigns - 1) % kSigns % kStyles);
}

std::vector<Line> header_lines(const Status& status, const Rates& rates, const TopHistory& history,
                               const TopOptions& options) {
    std::vector<Line> lines = {title_line(status, options), use_line(status, history, options)};
    const std::size_t devices = status.service.devices.size();
    if (devices < 2) lines.push_back(memory_line(status, "memory", options));
    // Each device has its line as long as half of the screen is left for jobs.
    for (std::size_t i = 0; devices > 1 && i < devices && 2 * lines.size() < static_cast<std::size_t>(options.height); ++i)
        lines.push_back(
            memory_line(status_of_device(status, i), fmt::format("gpu {}", status.service.devices[i].number), options));
    for (std::size_t i = 0; devices > 1 && i < devices && 2 * lines.size() < static_cast<std::size_t>(options.height); ++i)
        lines.push_back(turns_line_of(status.service.devices[i].number, history, options));
    if (options.height < kHeightForTurns || devices > 1) return lines;
    lines.push_back(turns_line(status.service, rates, history, options));
    lines.push_back(lanes_line(status, options));
    if (const std::string gates = gates_text(status.service); !gates.empty()) lines.push_back(gates_line(gates, options));
    return lines;
}

}  // namespace salus::cli
