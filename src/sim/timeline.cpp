#include "sim/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <numbers>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/characters.h"
#include "sim/timeline_rows.h"

namespace salus::sim {

void TimelineRecorder::ran(const Segment& segment) {
    if (segment.end <= segment.start) return;
    const auto [last, first_in_lane] = last_in_lane_.try_emplace(segment.lane, segments_.size());
    if (!first_in_lane) {
        Segment& before = segments_[last->second];
        if (before.client == segment.client && segment.start - before.end <= milliseconds(1)) {
            before.end = segment.end;
            return;
        }
        last->second = segments_.size();
    }
    segments_.push_back(segment);
}

void TimelineRecorder::after_event(const Event& event, Instant now, std::span<const Action> actions, const Simulation&) {
    if (const auto* e = std::get_if<event::Requests>(&event)) answering_.requests(index_of(e->client), e->in_flight, now);
    if (const auto* e = std::get_if<event::Leave>(&event)) answering_.requests(index_of(e->client), 0, now);
    if (const auto* e = std::get_if<event::Die>(&event)) answering_.requests(index_of(e->client), 0, now);
    answering_.acted(actions, now);
}

Panel since(const Panel& panel, Instant start) {
    const auto shifted = [&](Instant t) { return Instant{std::max<std::int64_t>((t - start).ns, 0)}; };
    Panel out{panel.title, {}, {}, {}};
    for (Segment s : panel.segments) {
        s.start = shifted(s.start);
        s.end = shifted(s.end);
        if (s.end > s.start) out.segments.push_back(s);
    }
    for (const Presence& p : panel.presences) out.presences.push_back({p.job, shifted(p.start), shifted(p.end)});
    for (const Answering::Request& r : panel.answering.requests)
        out.answering.requests.push_back({r.job, shifted(r.start), shifted(r.end)});
    for (const Answering::Closing& c : panel.answering.gates)
        out.answering.gates.push_back({shifted(c.start), shifted(c.end)});
    std::erase_if(out.answering.gates, [](const Answering::Closing& c) { return c.end <= c.start; });
    return out;
}

namespace {

// ---------------------------------------------------------------------------------------------------- text and colours

template <typename... Arguments>
void add(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

std::string escape_xml(std::string_view text) {
    std::string out;
    for (const char c : printable(text, ' ')) {  // XML has no way to write control characters
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string escape_json(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Character c = first_character(text);
        const bool escaped = is_control(c.code) || c.code == kInvalidCharacter;
        if (c.code == '"' || c.code == '\\') out += {'\\', static_cast<char>(c.code)};
        else if (escaped) add(out, "\\u{:04x}", static_cast<unsigned>(c.code > 0xffff ? kInvalidCharacter : c.code));
        else out += text.substr(0, c.bytes);
        text.remove_prefix(c.bytes);
    }
    return out;
}

/// "12.345 s" in a short run, "1:02:03" in a long one.
std::string format_time(Instant t) {
    if (t.ns < minutes(10).ns) return fmt::format("{:.3f} s", Duration{t.ns}.seconds());
    const std::int64_t s = t.ns / seconds(1).ns;
    return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

/// Hues are a golden angle apart: neighbours differ most, for any number of jobs. The colours are in OKLCH, where equal
/// lightness looks equally light, so that dark text is readable on all of them.
std::string colour_of(std::size_t job) {
    constexpr std::array kLightness{0.75, 0.84, 0.70, 0.79};
    const double lightness = kLightness[job % kLightness.size()];
    const double hue = std::fmod(static_cast<double>(job) * 137.50776 + 250.0, 360.0) * std::numbers::pi / 180.0;
    const double a = 0.115 * std::cos(hue);
    const double b = 0.115 * std::sin(hue);
    const auto cube = [](double x) { return x * x * x; };
    const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
    const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
    const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
    const auto byte = [](double x) {
        const double linear = std::clamp(x, 0.0, 1.0);
        const double encoded = linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
        return static_cast<int>(std::lround(255 * encoded));
    };
    return fmt::format("#{:02x}{:02x}{:02x}", byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                       byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                       byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

// ----------------------------------------------------------------------------------------------------------------- SVG

// Note [Stacks]
// A turn at least a pixel wide is a rectangle of its own. Narrower turns would blend into a colour of no job, and there may
// be 100,000 of them. So a stretch of narrow turns is divided into columns, and each column stacks the jobs' shares of its
// time in order of job, idle time on top. A job's cells in a row make one path, and equal neighbours one cell. So the size
// of the picture depends on its width and its rows, not on the number of turns.

constexpr int kWidth = 1200;
constexpr int kRight = 28;
constexpr int kLeftOfLanes = 68;
constexpr int kLeftOfJobs = 180;          ///< their names stand there
constexpr std::size_t kNameMost = 25;     ///< characters of them
constexpr std::size_t kLegendMost = 120;  ///< jobs that the legend names
constexpr int kColumnWidth = 2;
constexpr double kGapMax = 4;    ///< at most so many idle pixels within a stretch
constexpr int kSharePixels = 6;  ///< of height for each share that a stack may have, so that shares can be told apart
constexpr int kLabelHeight = 14;
constexpr double kRowsOfPixels = 8;        ///< with more rows, only wider turns have a rectangle: about 1 MB in total
constexpr std::size_t kTurnsMany = 1'000;  ///< with more turns in a panel's first row, rows may be higher
constexpr int kStripHeight = 8;            ///< of requests and of gates
constexpr std::string_view kStyle =
    "<style>text{font-family:system-ui,-apple-system,'Segoe "
    "UI',Roboto,Helvetica,Arial,sans-serif;font-size:11px;fill:#57606a}"
    ".title{font-size:15px;font-weight:600;fill:#1f2328}.job{fill:#1f2328;text-anchor:middle;pointer-events:none}"
    ".tick{text-anchor:middle}.lane{text-anchor:end}.grid{stroke:#d0d7de;fill:none}.there{stroke:#afb8c1;fill:none}.key{"
    "stroke:#afb8c1;stroke-width:.5}"
    "</style>\n";

struct Band {
    int top = 0;
    int height = 0;
};

/// A range of neighbouring columns in whose stacks a job has the same place.
struct Run {
    double left = 0;
    double right = 0;
    int top = 0;
    int bottom = 0;
};

/// A job's narrow turns in a row.
struct Area {
    Instant start = kNever;
    Instant end;
    std::size_t turns = 0;
    std::vector<Run> runs;

    void add_run(const Run& run) {
        if (run.top == run.bottom) return;
        const bool goes_on =
            !runs.empty() && runs.back().right == run.left && runs.back().top == run.top && runs.back().bottom == run.bottom;
        if (!goes_on) return runs.push_back(run);
        runs.back().right = run.right;
    }
};

using Shares = std::map<std::size_t, double>;  ///< each job's share of a column's time

/// The shares of a column that are drawn: the largest ones, and the rest as the share of `others`, a job after all jobs. If
/// many jobs have about the same share, chance would pick different ones in every column. So the largest are chosen over the
/// recent columns, and a job that was drawn there has the advantage.
Shares shares_drawn(const Shares& column, Shares& recent, std::size_t count, std::size_t others) {
    for (auto& [job, share] : recent) share *= 0.95;
    std::erase_if(recent, [](const auto& entry) { return entry.second < 1e-6; });
    std::vector<std::pair<double, std::size_t>> order;
    for (const auto& [job, share] : column) order.emplace_back(-(recent[job] += share), job);
    std::sort(order.begin(), order.end());
    Shares drawn;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::size_t job = order[i].second;
        drawn[i < count ? job : others] += column.at(job);
        if (i >= count) recent[job] *= 0.97;
    }
    return drawn;
}

/// A name that fits beside the rows.
std::string shortened(std::string_view name) {
    std::size_t characters = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if ((name[i] & 0xc0) != 0x80 && ++characters > kNameMost) return std::string(name.substr(0, i)) + "…";
    }
    return std::string(name);
}

double text_width(std::string_view text) {
    const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
    return 6.4 * static_cast<double>(characters);
}

/// What is drawn beside jobs has a number after theirs.
struct Extra {
    std::string_view colour;
    std::string_view name;
    std::string_view key;  ///< in the legend
};
constexpr std::size_t kOthers = 0;
constexpr std::size_t kRequests = 1;
constexpr std::size_t kGates = 2;
constexpr std::array<Extra, 3> kExtras{{{"#b8bcc2", "other jobs", "grey: all other jobs"},
                                        {"#24292f", "a request in flight", "black: a request in flight"},
                                        {"#cf222e", "gates closed", "red: gates of batch jobs closed"}}};

struct Picture {
    std::span<const SimulatedJob> jobs;
    TimelineOptions options = {};
    std::int64_t end_ns = 1;
    double wide_min = 1;  ///< least width in pixels of a turn with a rectangle of its own
    std::string out = {};
    bool has_stacks = false;
    bool has_presences = false;
    std::array<bool, kExtras.size()> has_extra = {};
    std::set<std::size_t> drawn = {};  ///< jobs that have turns

    int left() const { return options.by_job ? kLeftOfJobs : kLeftOfLanes; }
    int plot_width() const { return kWidth - left() - kRight; }
    double x_of(Instant t) const { return left() + plot_width() * static_cast<double>(t.ns) / static_cast<double>(end_ns); }
    const Extra* extra(std::size_t job) const { return job < jobs.size() ? nullptr : &kExtras[job - jobs.size()]; }
    std::string_view name_of(std::size_t job) const { return extra(job) ? extra(job)->name : jobs[job].name; }
    std::string fill_of(std::size_t job) const { return extra(job) ? std::string(extra(job)->colour) : colour_of(job); }
    void note(std::size_t job) {
        if (extra(job)) has_extra[job - jobs.size()] = true;
        else drawn.insert(job);
    }
    void add_label(std::string_view name, const Run& place);
    void add_labels(std::string_view name, std::span<const Run> runs);
    void add_row(std::span<const TimelineTurn> turns, const Band& band);
    void add_presence(const TimelineTurn& presence, const Band& band);
    void add_strip(std::span<const TimelineTurn> turns, std::size_t what, int top);
    void add_turn(const TimelineTurn& turn, const Band& band);
    void stack(std::span<const TimelineTurn> narrow, const Band& band, std::map<std::size_t, Area>& areas, Shares& recent);
    void add_area(std::size_t job, const Area& area);
    void add_axis(int top, int bottom);
    int add_legend(int y);
};

/// Adds the name to a row of several jobs if there is room, else its first word if there is room for that, else nothing.
void Picture::add_label(std::string_view name, const Run& place) {
    if (options.by_job) return;  // the row has it
    const double room = place.right - place.left - 8;
    if (text_width(name) > room) name = name.substr(0, name.find(' '));
    if (name.empty() || text_width(name) > room || place.bottom - place.top < kLabelHeight) return;
    add(out, "<text class=\"job\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", (place.left + place.right) / 2,
        (place.top + place.bottom) / 2 + 4, escape_xml(name));
}

/// See Note [Stacks].
void Picture::add_row(std::span<const TimelineTurn> turns, const Band& band) {
    const auto width = [&](const TimelineTurn& turn) { return x_of(turn.end) - x_of(turn.start); };
    std::map<std::size_t, Area> areas;
    Shares recent;
    for (std::size_t i = 0; i < turns.size();) {
        std::size_t end = i;
        while (end < turns.size() && width(turns[end]) < wide_min &&
               (end == i || x_of(turns[end].start) - x_of(turns[end - 1].end) <= kGapMax)) {
            ++end;
        }
        if (end > i) stack(turns.subspan(i, end - i), band, areas, recent);
        i = std::max(end, i + 1);
    }
    out += "<g shape-rendering=\"crispEdges\">\n";  // no seams between columns
    for (const auto& [job, area] : areas) add_area(job, area);
    out += "</g>\n";
    for (const TimelineTurn& turn : turns) {
        if (width(turn) >= wide_min) add_turn(turn, band);
    }
}

/// A line under the turns, so that a job that waits differs from one that has not come or has gone.
void Picture::add_presence(const TimelineTurn& presence, const Band& band) {
    has_presences = true;
    const double y = band.top + band.height / 2.0;
    add(out, "<path class=\"there\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", x_of(presence.start), y, x_of(presence.end));
}

/// Draws the turns, whosever they are, as one of kExtras.
void Picture::add_strip(std::span<const TimelineTurn> turns, std::size_t what, int top) {
    std::vector<TimelineTurn> strip(turns.begin(), turns.end());
    for (TimelineTurn& turn : strip) turn.job = jobs.size() + what;
    add_row(strip, {top, kStripHeight});
}

void Picture::add_turn(const TimelineTurn& turn, const Band& band) {
    note(turn.job);
    const std::string_view name = name_of(turn.job);
    const Run place{x_of(turn.start), x_of(turn.end), band.top, band.top + band.height};
    add(out, "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}\n{} to {}</title></rect>\n",
        place.left, band.top, place.right - place.left, band.height, fill_of(turn.job), escape_xml(name),
        format_time(turn.start), format_time(turn.end));
    add_label(name, place);
}

void Picture::stack(std::span<const TimelineTurn> narrow, const Band& band, std::map<std::size_t, Area>& areas,
                    Shares& recent) {
    const double left = x_of(narrow.front().start);
    const double right = x_of(narrow.back().end);
    std::vector<double> edges{left};
    if (right - left > kColumnWidth) {
        for (double x = std::floor(left / kColumnWidth + 1) * kColumnWidth; x < right; x += kColumnWidth) edges.push_back(x);
    }
    edges.push_back(right);

    std::vector<Shares> columns(edges.size() - 1);
    for (const TimelineTurn& turn : narrow) {
        Area& area = areas[turn.job];
        area.start = std::min(area.start, turn.start);
        area.end = std::max(area.end, turn.end);
        ++area.turns;
        const double from = x_of(turn.start);
        const double to = x_of(turn.end);
        auto i = static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end() - 1, from) - edges.begin()) - 1;
        for (; i < columns.size() && edges[i] < to; ++i) {
            columns[i][turn.job] += (std::min(to, edges[i + 1]) - std::max(from, edges[i])) / (edges[i + 1] - edges[i]);
        }
    }
    const auto shares_max = static_cast<std::size_t>(band.height / kSharePixels);
    const int least = options.by_job ? 3 : 1;  // pixels that can be seen
    edges.back() = std::max(right, left + 1);  // even a very short lone turn is visible
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const int bottom = band.top + band.height;
        double sum = 0;
        int low = bottom;
        for (const auto& [job, share] : shares_drawn(columns[i], recent, shares_max, jobs.size() + kOthers)) {
            sum += share;
            const int high = bottom - std::max(least, static_cast<int>(std::lround(std::min(sum, 1.0) * band.height)));
            areas[job].add_run({edges[i], edges[i + 1], high, low});
            low = high;
        }
        has_stacks |= options.by_job || columns[i].size() > 1 || extra(narrow.front().job);
    }
}

void Picture::add_area(std::size_t job, const Area& area) {
    if (area.runs.empty()) return;
    note(job);
    add(out, "<path fill=\"{}\" d=\"", fill_of(job));
    for (const Run& run : area.runs) {
        const double left = std::round(run.left * 10) / 10;
        const double right = std::round(run.right * 10) / 10;
        add(out, "M{:.5g} {}h{:.5g}v{}h{:.5g}z", left, run.top, right - left, run.bottom - run.top, left - right);
    }
    if (job == jobs.size() + kOthers) {
        add(out, "\"><title>{}</title></path>\n", name_of(job));
        return;
    }
    add(out, "\"><title>{}\n{} to {}, {} {}</title></path>\n", escape_xml(name_of(job)), format_time(area.start),
        format_time(area.end), area.turns, extra(job) ? "times" : "turns");
    add_labels(name_of(job), area.runs);
}

/// Adds a label wherever neighbouring runs have enough height in common.
void Picture::add_labels(std::string_view name, std::span<const Run> runs) {
    for (std::size_t i = 0; i < runs.size();) {
        Run common = runs[i];
        for (++i; i < runs.size() && runs[i].left == common.right; ++i) {
            const int top = std::max(common.top, runs[i].top);
            const int bottom = std::min(common.bottom, runs[i].bottom);
            if (bottom - top < kLabelHeight) break;
            common = {common.left, runs[i].right, top, bottom};
        }
        add_label(name, common);
    }
}

/// The smallest round step that makes at most 12 ticks.
Duration tick_step(std::int64_t end_ns) {
    std::vector<Duration> steps;
    for (Duration decade = microseconds(1); decade < seconds(10); decade = decade * 10) {
        for (const int k : {1, 2, 5}) steps.push_back(decade * k);
    }
    for (const int s : {10, 15, 30}) steps.push_back(seconds(s));
    for (const int m : {1, 2, 5, 10, 15, 30}) steps.push_back(minutes(m));
    for (const int h : {1, 2, 3, 6, 12, 24}) steps.push_back(minutes(60 * h));
    const Duration least{end_ns / 12};
    while (steps.back() < least) steps.push_back(steps.back() * 2);
    return *std::lower_bound(steps.begin(), steps.end(), least);
}

/// "14:03:05", with fractions if ticks are closer than a second.
std::string clock_text(double at_s, Duration step) {
    const double of_day_s = std::fmod(at_s, 86'400.0);
    const auto whole = static_cast<int>(of_day_s);
    std::string text = fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    if (step < seconds(1)) text += fmt::format("{:.3f}", of_day_s - whole).substr(1);
    return text;
}

void Picture::add_axis(int top, int bottom) {
    const Duration step = tick_step(end_ns);
    const Duration unit = step >= minutes(30) ? minutes(60) : step >= minutes(1) ? minutes(1) : seconds(1);
    const std::string_view unit_name = unit == minutes(60) ? "h" : unit == minutes(1) ? "min" : "s";
    const auto& clock_s = options.starts_at_s;
    // On a clock, round times are not round times since the start.
    const double before_s = clock_s ? std::ceil(*clock_s / step.seconds()) * step.seconds() - *clock_s : 0;
    for (Instant t = Instant{} + seconds_of(before_s); t.ns <= end_ns; t = t + step) {
        const double value = static_cast<double>(t.ns) / static_cast<double>(unit.ns);
        const std::string text = t.ns == 0 ? "0" : fmt::format("{:.7g} {}", value, unit_name);
        add(out, "<path class=\"grid\" d=\"M{:.1f} {}V{}\"/>\n", x_of(t), top, bottom + 5);
        add(out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x_of(t), bottom + 19,
            clock_s ? clock_text(*clock_s + Duration{t.ns}.seconds() + 1e-7, step) : text);
    }
}

/// Returns where its last line is.
int Picture::add_legend(int y) {
    double x = left();
    const auto add_entry = [&](std::span<const std::string> fills, std::string_view text) {
        if (x + 15 * static_cast<double>(fills.size()) + text_width(text) > kWidth) {
            x = left();
            y += 18;
        }
        for (const std::string& fill : fills) {
            add(out, "<rect class=\"key\" x=\"{:.0f}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, y - 10,
                fill);
            x += 15;
        }
        add(out, "<text x=\"{:.0f}\" y=\"{}\">{}</text>\n", x + 3, y, text);
        x += text_width(text) + 16;
    };
    const auto one = [](std::string_view fill) { return std::array<std::string, 1>{std::string(fill)}; };
    std::size_t named = 0;
    for (const std::size_t job : drawn) {  // where each job has a row, that names it
        if (options.by_job || ++named > kLegendMost) break;
        add_entry(one(colour_of(job)), escape_xml(jobs[job].name));
    }
    if (named > kLegendMost)
        add_entry({}, fmt::format("and {} more jobs, each in a colour of its own", drawn.size() - kLegendMost));
    if (has_presences) add_entry({}, "grey line: the job is there, and waits.");
    add_entry(one("#fff"), "white: idle");
    for (std::size_t i = 0; i < kExtras.size(); ++i) {
        if (has_extra[i]) add_entry(one(kExtras[i].colour), kExtras[i].key);
    }
    const std::string_view whose = has_extra[kRequests] || has_extra[kGates] ? "its" : "that job's";
    if (has_stacks) {
        add_entry({},
                  fmt::format("Where turns are too short to draw, the height of a colour is {} share of the time.", whose));
    }
    return y;
}

}  // namespace

std::string timeline_svg(std::span<const Panel> panels, std::span<const SimulatedJob> jobs, const TimelineOptions& options) {
    Picture picture{.jobs = jobs, .options = options};
    std::vector<std::vector<TimelineRow>> layouts;
    std::size_t rows_in_all = 0;
    for (const Panel& panel : panels) {
        layouts.push_back(options.by_job ? rows_by_job(panel, jobs) : rows_by_lane(panel, jobs));
        for (const Answering::Request& r : panel.answering.requests) picture.end_ns = std::max(picture.end_ns, r.end.ns);
        for (const Answering::Closing& c : panel.answering.gates) picture.end_ns = std::max(picture.end_ns, c.end.ns);
        rows_in_all += layouts.back().size();
        for (const Segment& s : panel.segments) picture.end_ns = std::max(picture.end_ns, s.end.ns);
        for (const Presence& p : panel.presences) picture.end_ns = std::max(picture.end_ns, p.end.ns);
    }
    picture.wide_min = std::max(1.0, static_cast<double>(rows_in_all) / kRowsOfPixels);
    const int top = 36;
    int bottom = top;
    std::string below;  // drawn below the grid
    for (std::size_t i = 0; i < panels.size(); ++i) {
        int y = i == 0 ? top : bottom + 36;
        add(picture.out, "<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>\n", picture.left(), y - 8,
            escape_xml(panels[i].title));
        const int height_max = layouts[i].front().turns.size() > kTurnsMany ? 96 : 56;
        const auto rows = static_cast<int>(layouts[i].size());
        const int height = options.by_job ? std::clamp(640 / rows, 12, 28) : std::clamp(96 / rows, 14, height_max);
        const auto add_band = [&](std::string_view name, int band_height) {
            add(below, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n", picture.left(), y,
                picture.plot_width(), band_height);
            add(picture.out, "<text class=\"lane\" x=\"{}\" y=\"{}\">{}</text>\n", picture.left() - 8,
                y + band_height / 2 + 4, escape_xml(name));
            bottom = y + band_height;
            return std::exchange(y, bottom + 3);
        };
        for (const TimelineRow& row : layouts[i]) {
            const int at = add_band(shortened(row.name), height + (row.requests.empty() ? 0 : kStripHeight));
            if (row.presence) picture.add_presence(*row.presence, {at, height});
            picture.add_row(row.turns, {at, height});
            if (!row.requests.empty()) picture.add_strip(row.requests, kRequests, at + height);
        }
        std::vector<TimelineTurn> closed;
        for (const Answering::Closing& c : panels[i].answering.gates) closed.push_back({0, c.start, c.end});
        if (!closed.empty()) picture.add_strip(closed, kGates, add_band("gates", kStripHeight));
    }
    std::string contents = std::exchange(picture.out, {});
    const int height = picture.add_legend(bottom + 48) + 18;
    contents += std::exchange(picture.out, {});
    add(picture.out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
        kWidth, height);
    add(picture.out, "{}<rect width=\"{}\" height=\"{}\" rx=\"6\" fill=\"#f6f8fa\"/>\n{}", kStyle, kWidth, height, below);
    picture.add_axis(top, bottom);
    return picture.out + contents + "</svg>\n";
}

std::string timeline_chrome_json(std::span<const Panel> panels, std::span<const SimulatedJob> jobs) {
    std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    std::string_view separator = "\n";
    const auto event = [&]<typename... Arguments>(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
        out += separator;
        separator = ",\n";
        add(out, format, std::forward<Arguments>(arguments)...);
    };
    const auto microseconds_of = [](std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); };
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const std::size_t pid = i + 1;
        event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", pid, escape_json(panels[i].title));
        event(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", pid);
        std::size_t tid = 0;
        const auto thread = [&](std::string_view name) {
            event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", pid, ++tid, name);
        };
        const auto stretch = [&](std::string_view name, std::string_view category, Instant start, Instant end) {
            event(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{}}})", escape_json(name), category,
                  pid, tid, microseconds_of(start.ns), microseconds_of((end - start).ns));
        };
        std::map<std::size_t, std::vector<TimelineTurn>> requests_to;
        for (const TimelineRow& row : rows_by_lane(panels[i], jobs)) {
            thread(row.name);
            for (const TimelineTurn& turn : row.turns)
                stretch(jobs[turn.job].name, turn.profiling ? "profiling" : "turn", turn.start, turn.end);
            for (const TimelineTurn& request : row.requests) requests_to[request.job].push_back(request);
        }
        for (const auto& [job, requests] : requests_to) {
            thread(escape_json("requests to " + jobs[job].name));
            for (const TimelineTurn& request : requests) stretch("request", "request", request.start, request.end);
        }
        if (!panels[i].answering.gates.empty()) thread("gates");
        for (const Answering::Closing& c : panels[i].answering.gates) stretch("gates closed", "gates", c.start, c.end);
    }
    out += "\n]}\n";
    return out;
}

}  // namespace salus::sim
