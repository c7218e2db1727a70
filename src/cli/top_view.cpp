#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"

namespace salus::cli {
namespace {

constexpr int kBarWidth = 10;
constexpr int kNameMax = 24;
constexpr int kWhyWhole = 44;  ///< enough for most reasons
constexpr int kWhyMin = 10;    ///< less would say nothing

struct Row {
    JobCells cells;
    double job, share, iterations, waited_s;
    double progress = -1;  ///< negative: not known
    JobState state = JobState::kUnknown;
    Style style = Style::kPlain;
};

Style style_of(JobState state) {
    switch (state) {
        case JobState::kRunning: return Style::kRunning;
        case JobState::kRefused: return Style::kError;
        case JobState::kPaused:
        case JobState::kStopped:
        case JobState::kAsleep:
        case JobState::kGrowing:
        case JobState::kLeaving: return Style::kWarning;
        default: return Style::kPlain;
    }
}

Row row_of(const JobStatus& job, const Rate& rate) {
    Row row{cells_of(job, rate), static_cast<double>(job.job), rate.share.value_or(-1), rate.iterations_per_s.value_or(-1),
            job.activity ? job.activity->waited.seconds() : -1};
    if (job.activity && job.activity->length) {
        const auto total = static_cast<double>(job.activity->length->iterations);
        row.progress = std::clamp(static_cast<double>(job.activity->iterations) / total, 0.0, 1.0);
    }
    row.state = job.state;
    row.style = style_of(job.state);
    return row;
}

std::vector<Row> sorted_rows(const Status& status, const Rates& rates, SortKey key) {
    std::vector<Row> rows;
    for (const JobStatus& job : status.jobs) rows.push_back(row_of(job, rates.of(job)));
    const auto value = [&](const Row& row) {
        switch (key) {
            case SortKey::kJob: return -row.job;
            case SortKey::kShare: return row.share;
            case SortKey::kIterations: return row.iterations;
            case SortKey::kWaiting: return row.waited_s;
        }
        return 0.0;
    };
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return value(a) > value(b); });
    return rows;
}

/// Puts pieces one after the other, up to the width of the screen.
class LineWriter {
public:
    explicit LineWriter(const TopOptions& options) : options_(options) {}

    int at() const { return at_; }
    int left() const { return options_.width - at_; }
    void add(std::string_view text, Style style = Style::kPlain) {
        const int width = width_of(text);
        std::string shown = shorten(text, left(), options_.unicode ? "…" : "~");
        if (!shown.empty()) line_.push_back({at_, std::move(shown), style});
        at_ += width;  // beyond the edge if it was shortened: nothing more follows
    }
    void skip(int columns) { at_ += columns; }
    /// Adds the text in exactly this many columns.
    void cell(std::string_view text, int width, Align align, Style style) {
        add(pad(shorten(text, width, options_.unicode ? "…" : "~"), width, align), style);
    }
    Line take() && { return std::move(line_); }

private:
    const TopOptions& options_;
    Line line_;
    int at_ = 0;
};

// ------------------------------------------------------------------------------------------------------------ header

Line title_line(const ServiceStatus& service, const std::vector<Row>& rows, const TopOptions& options) {
    const auto in_state = [&](JobState state) {
        return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.state == state; });
    };
    LineWriter line(options);
    line.add("Salus", Style::kBold);
    line.add(fmt::format("   {} on {}   up {}   ", printable(service.policy), printable(service.device),
                         format_seconds(service.uptime.seconds())));
    line.add(fmt::format("{} jobs", rows.size()), Style::kBold);
    line.add(fmt::format(": {} running, {} waiting", in_state(JobState::kRunning), in_state(JobState::kWaiting)));
    return std::move(line).take();
}

Line memory_line(const ServiceStatus& service, const TopOptions& options) {
    const double share = service.capacity.count > 0 ? service.reserved.mib() / service.capacity.mib() : 0;
    LineWriter line(options);
    line.add("memory  ");
    line.add(bar(share, std::clamp(options.width - 50, 10, 50), options.unicode), Style::kBar);
    line.add(fmt::format(" {:3.0f} %  {} of {} reserved", 100 * share, format_bytes(service.reserved),
                         format_bytes(service.capacity)));
    return std::move(line).take();
}

Line lanes_line(const Status& status, const TopOptions& options) {
    LineWriter line(options);
    line.add("lanes   ");
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
    line.add("gates   " + text);
    return std::move(line).take();
}

Line turns_line(const ServiceStatus& service, const Rates& rates, const TopOptions& options) {
    const auto per_s = [](std::optional<double> rate) { return rate ? format_rate(*rate) : "-"; };
    LineWriter line(options);
    line.add(fmt::format("turns   {}/s   switches {}/s, {} so far   page-outs {}", per_s(rates.turns_per_s()),
                         per_s(rates.switches_per_s()), service.statistics.switches, service.statistics.page_outs));
    if (!service.trace.recording) line.add("   the trace is no longer recorded", Style::kWarning);
    return std::move(line).take();
}

Line help_line(const TopOptions& options, const std::string& position) {
    constexpr std::array<std::pair<const char*, SortKey>, 4> kKeys = {{{"s share", SortKey::kShare},
                                                                       {"i iterations", SortKey::kIterations},
                                                                       {"w waiting", SortKey::kWaiting},
                                                                       {"j job", SortKey::kJob}}};
    LineWriter line(options);
    line.add("q quit   sort by:", Style::kDim);
    for (const auto& [text, key] : kKeys) {
        line.add("  ");
        line.add(text, key == options.sort ? Style::kBold : Style::kDim);
    }
    if (!position.empty()) line.add("   " + position);
    return std::move(line).take();
}

// ------------------------------------------------------------------------------------------------------------- table

struct Column {
    const char* title;
    std::string JobCells::*text;
    int width;  ///< minimum, so that the table does not jump when figures change
    Align align;
    SortKey sorts = SortKey::kJob;
};

std::vector<Column> columns_for(const std::vector<Row>& rows) {
    using enum Align;
    std::vector<Column> columns = {{"JOB", &JobCells::job, 3, kRight},
                                   {"NAME", &JobCells::name, 8, kLeft},
                                   {"STATE", &JobCells::state, 9, kLeft},
                                   {"LANE", &JobCells::lane, 4, kRight},
                                   {"IT/S", &JobCells::rate, 5, kRight, SortKey::kIterations},
                                   {"LEFT", &JobCells::left, 7, kRight},
                                   {"SHARE", &JobCells::share, 5, kRight, SortKey::kShare},
                                   {"P", &JobCells::persistent, 8, kRight},
                                   {"T", &JobCells::ephemeral, 8, kRight},
                                   {"WAITED", &JobCells::waited, 7, kRight, SortKey::kWaiting}};
    for (Column& column : columns) {
        for (const Row& row : rows) column.width = std::max(column.width, width_of(row.cells.*column.text));
    }
    columns[1].width = std::min(columns[1].width, kNameMax);
    return columns;
}

/// The layout of the table. If one line is too short for a job, it takes two lines, if the screen is high enough.
struct Layout {
    std::vector<Column> columns;
    int iterations_width = 0;
    bool wide = false;
    bool two_lines = false;

    Layout(const std::vector<Row>& rows, int width, int height) : columns(columns_for(rows)) {
        for (const Row& row : rows) iterations_width = std::max(iterations_width, width_of(row.cells.iterations));
        iterations_width = std::max(iterations_width, 10);
        int fixed = -1;
        for (const Column& column : columns) fixed += column.width + 1;
        // A long name is shortened first.
        const int excess = std::clamp(fixed - width, 0, columns[1].width - 8);
        columns[1].width -= excess;
        const int left = width - (fixed - excess) - progress_width() - 4;
        two_lines = left < kWhyWhole && 2 * static_cast<int>(rows.size()) <= height;
        wide = !two_lines && left >= kWhyMin;
    }

    int progress_width() const { return kBarWidth + 1 + iterations_width; }
    int lines_each() const { return two_lines ? 2 : 1; }
};

/// The bar is for jobs whose total is known.
void add_progress(LineWriter& line, const Row& row, const Layout& layout, bool unicode) {
    if (row.progress < 0) {
        const std::string text = row.cells.iterations == "-" ? "" : row.cells.iterations + " iterations";
        return line.cell(text, layout.progress_width(), Align::kLeft, Style::kPlain);
    }
    line.add(bar(row.progress, kBarWidth, unicode), Style::kBar);
    line.skip(1);
    line.cell(row.cells.iterations, layout.iterations_width, Align::kLeft, Style::kPlain);
}

Line table_header(const Layout& layout, const TopOptions& options) {
    LineWriter line(options);
    for (const Column& column : layout.columns) {
        const bool by_job = options.sort == SortKey::kJob && column.text == &JobCells::job;
        const bool sorted = by_job || (options.sort != SortKey::kJob && column.sorts == options.sort);
        if (line.at() > 0) line.add(" ", Style::kHeader);
        line.cell(column.title, column.width, column.align, sorted ? Style::kSorted : Style::kHeader);
    }
    if (layout.wide) line.add(pad("  PROGRESS", layout.progress_width() + 2, Align::kLeft), Style::kHeader);
    if (!layout.two_lines && line.left() > 2) line.add("  WHY", Style::kHeader);
    line.add(std::string(static_cast<std::size_t>(std::max(line.left(), 0)), ' '), Style::kHeader);
    return std::move(line).take();
}

void add_row(std::vector<Line>& lines, const Row& row, const Layout& layout, const TopOptions& options) {
    LineWriter line(options);
    for (const Column& column : layout.columns) {
        if (line.at() > 0) line.skip(1);
        line.cell(row.cells.*column.text, column.width, column.align, row.style);
    }
    if (layout.wide) {
        line.skip(2);
        add_progress(line, row, layout, options.unicode);
    }
    if (!layout.two_lines && line.left() > 2) {
        line.skip(2);
        line.add(row.cells.why, Style::kDim);
    }
    lines.push_back(std::move(line).take());
    if (!layout.two_lines) return;
    LineWriter second(options);
    second.skip(layout.columns.front().width + 1);
    add_progress(second, row, layout, options.unicode);
    second.skip(2);
    second.add(row.cells.why, Style::kDim);
    lines.push_back(std::move(second).take());
}

/// Fills the screen; the last line is `help`.
std::vector<Line> on_screen(std::vector<Line> lines, Line help, const TopOptions& options) {
    const auto height = static_cast<std::size_t>(std::max(options.height, 1));
    lines.resize(height - 1);
    lines.push_back(std::move(help));
    return lines;
}

}  // namespace

std::vector<Line> top_lines(const Status& status, const Rates& rates, TopOptions& options) {
    const std::vector<Row> rows = sorted_rows(status, rates, options.sort);
    const ServiceStatus& service = status.service;
    std::vector<Line> lines = {title_line(service, rows, options), memory_line(service, options),
                               lanes_line(status, options)};
    if (const std::string gates = gates_text(service); !gates.empty()) lines.push_back(gates_line(gates, options));
    lines.push_back(turns_line(service, rates, options));
    lines.emplace_back();
    const int room = std::max(options.height - static_cast<int>(lines.size()) - 2, 1);
    const Layout layout(rows, options.width, room);
    const int count = static_cast<int>(rows.size());
    const int fit = std::max(room / layout.lines_each(), 1);
    options.first = std::clamp(options.first, 0, std::max(count - fit, 0));
    if (rows.empty()) lines.push_back({{0, cut("no jobs", options.width), Style::kDim}});
    else lines.push_back(table_header(layout, options));
    const int last = std::min(options.first + fit, count);
    for (int i = options.first; i < last; ++i) add_row(lines, rows[static_cast<std::size_t>(i)], layout, options);
    const std::string position =
        last - options.first < count ? fmt::format("{} to {} of {}: up, down", options.first + 1, last, count) : "";
    return on_screen(std::move(lines), help_line(options, position), options);
}

std::vector<Line> trouble_lines(const std::string& why, const TopOptions& options) {
    LineWriter title(options), reason(options);
    title.add("Salus", Style::kBold);
    reason.add(printable(why), Style::kError);
    return on_screen({std::move(title).take(), {}, std::move(reason).take()}, help_line(options, ""), options);
}

}  // namespace salus::cli
