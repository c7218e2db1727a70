#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"
#include "cli/line_writer.h"
#include "cli/top_header.h"

namespace salus::cli {
namespace {

constexpr int kBarWidth = 10;
constexpr int kNameMax = 24;
constexpr int kNameMin = 8;
constexpr int kWhyMin = 10;  ///< less would say nothing
constexpr int kWidthForWords = 110;

struct Row {
    JobCells cells;
    std::string sign;  ///< of the job, as in the bars above
    std::uint32_t job = 0;
    double progress = -1;  ///< negative: not known
    Style style = Style::kPlain;
};

Style style_of(JobState state) {
    switch (state) {
        case JobState::kRunning: return Style::kRunning;
        case JobState::kRefused: return Style::kError;
        case JobState::kPaused:
        case JobState::kSuspended:
        case JobState::kStopped:
        case JobState::kAsleep:
        case JobState::kGrowing:
        case JobState::kLeaving: return Style::kWarning;
        default: return Style::kPlain;
    }
}

Row row_of(const JobStatus& job, const Rate& rate) {
    Row row{cells_of(job, rate), std::string(1, sign_of(job.job)), job.job};
    if (job.activity && job.activity->length) {
        const auto total = static_cast<double>(job.activity->length->iterations);
        row.progress = std::clamp(static_cast<double>(job.activity->iterations) / total, 0.0, 1.0);
    }
    row.style = style_of(job.state);
    return row;
}

/// What rows are ordered by, the highest first.
double value_of(const JobStatus& job, const Rate& rate, SortKey key) {
    switch (key) {
        case SortKey::kJob: return -static_cast<double>(job.job);
        case SortKey::kShare: return rate.share.value_or(-1);
        case SortKey::kIterations: return rate.iterations_per_s.value_or(-1);
        case SortKey::kWaiting: return job.activity ? job.activity->waited.seconds() : -1;
        case SortKey::kLeft: return job.activity && job.activity->left ? -job.activity->left->seconds() : -1e12;
        case SortKey::kMemory: return job.activity ? (job.activity->persistent + job.activity->ephemeral).mib() : -1;
    }
    return 0;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// --------------------------------------------------------------------------------------------------------- last line

Line keys_line(const TopOptions& options, const std::string& position) {
    LineWriter line(options);
    switch (options.mode) {
        case TopMode::kFilter:
            line.add("filter: ", Style::kBold);
            line.add(printable(options.filter) + "_");
            return std::move(line).take();
        case TopMode::kConfirmKill:
            line.add(fmt::format("End job {}? y: yes, any other key: no", options.chosen), Style::kWarning);
            return std::move(line).take();
        case TopMode::kHelp: line.add("any key: back", Style::kDim); return std::move(line).take();
        case TopMode::kJobs: break;
    }
    if (!options.said.empty()) line.add(printable(options.said) + "   ", Style::kBold);
    line.add("q quit  h help  p pause  k kill  +- priority  / filter  sort:", Style::kDim);
    constexpr std::array<std::pair<const char*, SortKey>, 6> kKeys = {{{"s share", SortKey::kShare},
                                                                       {"i it/s", SortKey::kIterations},
                                                                       {"w waited", SortKey::kWaiting},
                                                                       {"l left", SortKey::kLeft},
                                                                       {"m memory", SortKey::kMemory},
                                                                       {"j job", SortKey::kJob}}};
    const bool whole = options.width >= kWidthForWords;
    for (const auto& [text, key] : kKeys) {
        line.add(" ");
        line.add(whole ? std::string_view(text) : std::string_view(text, 1),
                 key == options.sort ? Style::kBold : Style::kDim);
    }
    if (!position.empty()) line.add("   " + position);
    return std::move(line).take();
}

/// Fills the screen; the last line is `keys`.
std::vector<Line> on_screen(std::vector<Line> lines, Line keys, const TopOptions& options) {
    const auto height = static_cast<std::size_t>(std::max(options.height, 1));
    lines.resize(height - 1);
    lines.push_back(std::move(keys));
    return lines;
}

std::vector<Line> help_lines(const TopOptions& options) {
    constexpr std::array kText = {
        "up, down      choose a job, by which these keys go:",
        "  p           pause it after its current iteration, or resume it",
        "  k           end it (SIGTERM); asks first",
        "  + -         raise or lower its priority",
        "/             show only jobs whose number, name, user or state has a text",
        "Esc           show all jobs, choose none",
        "s i w l m j   sort by share, iterations/s, waited, left, memory, job",
        "Ctrl-L        draw the screen anew",
        "q             quit",
        "",
        "device        share of the time with a turn, one column for each update",
        "memory        letters: P of jobs, = lanes (T), + other reservations, . free",
        "turns         who had the device in the last 10 s, by share of each update",
        "ALONE         share of its speed alone: of the time in which it did not wait",
        "SHARE         share of the time inside its iterations",
    };
    std::vector<Line> lines;
    lines.push_back({{0, cut("Salus: keys", options.width), Style::kBold}});
    for (const char* text : kText) lines.push_back({{0, cut(text, options.width), Style::kPlain}});
    return lines;
}

// ------------------------------------------------------------------------------------------------------------- table

struct Column {
    const char* title;
    std::string JobCells::*text;
    int width;  ///< minimum, so that the table does not jump when figures change
    Align align;
    int rank;  ///< a narrow screen leaves out the columns of highest rank; 0: none
    SortKey sorts = SortKey::kJob;
};

std::vector<Column> columns_for(const std::vector<Row>& rows, int width) {
    using enum Align;
    std::vector<Column> columns = {{"JOB", &JobCells::job, 3, kRight, 0},
                                   {"NAME", &JobCells::name, kNameMin, kLeft, 0},
                                   {"USER", &JobCells::user, 5, kLeft, 3},
                                   {"PRI", &JobCells::priority, 3, kRight, 2},
                                   {"STATE", &JobCells::state, 9, kLeft, 0},
                                   {"LANE", &JobCells::lane, 4, kRight, 6},
                                   {"IT/S", &JobCells::rate, 5, kRight, 0, SortKey::kIterations},
                                   {"ALONE", &JobCells::of_alone, 5, kRight, 1},
                                   {"LEFT", &JobCells::left, 7, kRight, 0, SortKey::kLeft},
                                   {"SHARE", &JobCells::share, 5, kRight, 0, SortKey::kShare},
                                   {"P", &JobCells::persistent, 8, kRight, 4, SortKey::kMemory},
                                   {"T", &JobCells::ephemeral, 8, kRight, 5, SortKey::kMemory},
                                   {"WAITED", &JobCells::waited, 7, kRight, 7, SortKey::kWaiting}};
    if (std::ranges::any_of(rows, [](const Row& row) { return row.cells.placed != "-"; }))
        columns.insert(columns.begin() + 2, {"GPU", &JobCells::gpu, 3, kRight, 0});
    for (Column& column : columns) {
        for (const Row& row : rows) column.width = std::max(column.width, width_of(row.cells.*column.text));
    }
    columns[1].width = std::min(columns[1].width, kNameMax);
    const auto excess = [&] {
        int all = 1;  // the sign
        for (const Column& column : columns) all += column.width + 1;
        return all - width;
    };
    // A long name is shortened first.
    columns[1].width -= std::clamp(excess(), 0, columns[1].width - kNameMin);
    while (excess() > 0) {
        const auto least = std::ranges::max_element(columns, {}, &Column::rank);
        if (least->rank == 0) break;
        columns.erase(least);
    }
    return columns;
}

/// The layout of the table. If one line is too short for a job, it takes two lines, if the screen is high enough.
struct Layout {
    std::vector<Column> columns;
    int iterations_width = 10;
    bool wide = false;
    bool two_lines = false;

    Layout(const std::vector<Row>& rows, int width, int height) : columns(columns_for(rows, width)) {
        int why = 0;
        for (const Row& row : rows) {
            iterations_width = std::max(iterations_width, width_of(row.cells.iterations));
            why = std::max(why, width_of(row.cells.why));
        }
        int left = width - 1 - progress_width() - 4;
        for (const Column& column : columns) left -= column.width + 1;
        two_lines = left < std::max(why, kWhyMin) && 2 * static_cast<int>(rows.size()) <= height;
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
    line.add(" ", Style::kHeader);
    for (const Column& column : layout.columns) {
        const bool by_job = options.sort == SortKey::kJob && column.text == &JobCells::job;
        const bool sorted = by_job || (options.sort != SortKey::kJob && column.sorts == options.sort);
        line.add(" ", Style::kHeader);
        line.cell(column.title, column.width, column.align, sorted ? Style::kSorted : Style::kHeader);
    }
    if (layout.wide) line.add(pad("  PROGRESS", layout.progress_width() + 2, Align::kLeft), Style::kHeader);
    if (!layout.two_lines && line.left() > 2) line.add("  WHY", Style::kHeader);
    line.add(std::string(static_cast<std::size_t>(std::max(line.left(), 0)), ' '), Style::kHeader);
    return std::move(line).take();
}

void add_row(std::vector<Line>& lines, const Row& row, const Layout& layout, const TopOptions& options) {
    const bool chosen = row.job == options.chosen;
    LineWriter line(options);
    line.add(row.sign, style_of_job(row.job));
    for (const Column& column : layout.columns) {
        line.skip(1);
        const bool marked = chosen && column.text == &JobCells::name;
        line.cell(row.cells.*column.text, column.width, column.align, marked ? Style::kHeader : row.style);
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
    second.skip(layout.columns.front().width + 3);
    add_progress(second, row, layout, options.unicode);
    second.skip(2);
    second.add(row.cells.why, Style::kDim);
    lines.push_back(std::move(second).take());
}

/// Brings the first row into range, and so that the chosen row is on the screen.
void scroll(TopOptions& options, const std::vector<Row>& rows, int fit) {
    const auto chosen = std::ranges::find(rows, options.chosen, &Row::job);
    if (chosen != rows.end()) {
        const auto at = static_cast<int>(chosen - rows.begin());
        options.first = std::clamp(options.first, at - fit + 1, at);
    }
    options.first = std::clamp(options.first, 0, std::max(static_cast<int>(rows.size()) - fit, 0));
}

}  // namespace

std::vector<JobStatus> rows_of(const Status& status, const Rates& rates, const TopOptions& options) {
    std::vector<JobStatus> rows;
    for (const JobStatus& job : status.jobs) {
        const JobCells cells = cells_of(job, rates.of(job));
        const bool shown = contains(cells.job, options.filter) || contains(cells.name, options.filter) ||
                           contains(cells.user, options.filter) || contains(cells.state, options.filter);
        if (shown) rows.push_back(job);
    }
    std::stable_sort(rows.begin(), rows.end(), [&](const JobStatus& a, const JobStatus& b) {
        return value_of(a, rates.of(a), options.sort) > value_of(b, rates.of(b), options.sort);
    });
    return rows;
}

std::vector<Line> top_lines(const Status& status, const Rates& rates, const TopHistory& history, TopOptions& options) {
    if (options.mode == TopMode::kHelp) return on_screen(help_lines(options), keys_line(options, ""), options);
    std::vector<Row> rows;
    for (const JobStatus& job : rows_of(status, rates, options)) rows.push_back(row_of(job, rates.of(job)));
    std::vector<Line> lines = header_lines(status, rates, history, options);
    lines.emplace_back();
    const int room = std::max(options.height - static_cast<int>(lines.size()) - 2, 1);
    const Layout layout(rows, options.width, room);
    const int count = static_cast<int>(rows.size());
    const int fit = std::max(room / layout.lines_each(), 1);
    scroll(options, rows, fit);
    const std::string none = status.jobs.empty() ? "no jobs" : "no job has this text; Esc shows all";
    if (rows.empty()) lines.push_back({{0, cut(none, options.width), Style::kDim}});
    else lines.push_back(table_header(layout, options));
    const int last = std::min(options.first + fit, count);
    for (int i = options.first; i < last; ++i) add_row(lines, rows[static_cast<std::size_t>(i)], layout, options);
    const std::string position =
        last - options.first < count ? fmt::format("{} to {} of {}", options.first + 1, last, count) : "";
    return on_screen(std::move(lines), keys_line(options, position), options);
}

std::vector<Line> trouble_lines(const std::string& why, const TopOptions& options) {
    LineWriter title(options), reason(options);
    title.add("Salus", Style::kBold);
    reason.add(printable(why), Style::kError);
    return on_screen({std::move(title).take(), {}, std::move(reason).take()}, keys_line(options, ""), options);
}

}  // namespace salus::cli
