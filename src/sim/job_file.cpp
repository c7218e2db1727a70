#include "sim/job_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"

namespace salus::sim {
namespace {

// Limits far beyond any real job, so that sums of a few such figures still fit into 64 bits.
constexpr double kSecondsMax = 1e9;
constexpr double kMillisecondsMax = kSecondsMax * 1e3;
constexpr double kMebibytesMax = 1e9;
constexpr double kRequestsPerSecondMax = 1e6;
constexpr double kIterationsMax = 1e12;
constexpr Duration kServiceMax = seconds(1'000'000'000);

struct Field {
    std::string_view text;
    double number = 0;  ///< if the column has a range

    /// Not through a double: it has 53 bits, and two weeks in nanoseconds need 50, so long times would not stay exact. Not
    /// by from_chars: libc++ has none for long doubles.
    Duration in(Duration unit) const {
        const long double exact = std::strtold(std::string(trim(text)).c_str(), nullptr);
        return {std::llround(exact * static_cast<long double>(unit.ns))};
    }
};

/// The numbers that a column accepts.
struct Range {
    double low;
    double high;
    bool whole = false;
    bool above_low = false;  ///< `low` itself is excluded
    bool list = false;       ///< several of them, separated by blanks, none less than the one before
};
constexpr Range whole(double low, double high) { return {.low = low, .high = high, .whole = true}; }

std::string format_exactly(Duration time, Duration unit) {
    std::string fraction = fmt::format("{}", unit.ns + time.ns % unit.ns).substr(1);  // the leading 1 keeps its zeros
    fraction.erase(fraction.find_last_not_of('0') + 1);
    return fmt::format("{}{}{}", time.ns / unit.ns, fraction.empty() ? "" : ".", fraction);
}

std::string format_optional(std::optional<Duration> time) {
    return time ? format_exactly(*time, milliseconds(1)) : std::string();
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words = split(text, ' ');
    std::erase_if(words, [](std::string_view word) { return trim(word).empty(); });
    return words;
}

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string format_name(std::string_view name) {
    SALUS_CHECK(!trim(name).empty() && !has_control_character(name), "this name cannot be written to a job file");
    // A bare '#' would make the row a comment, and blanks at the ends of a bare field mean nothing.
    if (name.find_first_of(",\"") == std::string_view::npos && name[0] != '#' && trim(name) == name)
        return std::string(name);
    std::string quoted = "\"";
    for (char c : name) quoted.append(c == '"' ? 2 : 1, c);
    return quoted + '"';
}

struct Column {
    std::string_view name;
    bool required;
    std::optional<Range> range;  ///< none: not a number
    void (*set)(SimulatedJob&, const Field&);
    std::string (*format)(const SimulatedJob&);
};

constexpr Duration kSecond = seconds(1);
constexpr Duration kMillisecond = milliseconds(1);

// An iteration takes at least a nanosecond, the clock's tick. Weights are bounded because service is divided by them.
constexpr auto kColumns = std::to_array<Column>({
    {"name",
     true,
     {},
     [](SimulatedJob& job, const Field& field) { job.name = field.text; },
     [](const SimulatedJob& job) { return format_name(job.name); }},
    {"arrival_s", true, Range{0, kSecondsMax},
     [](SimulatedJob& job, const Field& field) { job.arrival = field.in(kSecond); },
     [](const SimulatedJob& job) { return format_exactly(job.arrival, kSecond); }},
    {"iterations", true, whole(1, kIterationsMax),
     [](SimulatedJob& job, const Field& field) { job.iterations = static_cast<std::uint64_t>(field.number); },
     [](const SimulatedJob& job) { return fmt::format("{}", job.iterations); }},
    {"iteration_ms", true, Range{1e-6, kMillisecondsMax},
     [](SimulatedJob& job, const Field& field) { job.iteration_time = field.in(kMillisecond); },
     [](const SimulatedJob& job) { return format_exactly(job.iteration_time, kMillisecond); }},
    {"persistent_mib", true, Range{0, kMebibytesMax},
     [](SimulatedJob& job, const Field& field) { job.persistent = mebibytes_of(field.number); },
     [](const SimulatedJob& job) { return fmt::format("{}", job.persistent.mib()); }},
    {"ephemeral_mib", true, Range{0, kMebibytesMax},
     [](SimulatedJob& job, const Field& field) { job.ephemeral = mebibytes_of(field.number); },
     [](const SimulatedJob& job) { return fmt::format("{}", job.ephemeral.mib()); }},
    {"priority", false, whole(-1000, 1000),
     [](SimulatedJob& job, const Field& field) { job.priority = static_cast<int>(field.number); },
     [](const SimulatedJob& job) { return fmt::format("{}", job.priority); }},
    {"weight", false, Range{1e-6, 1e6}, [](SimulatedJob& job, const Field& field) { job.weight = field.number; },
     [](const SimulatedJob& job) { return fmt::format("{}", job.weight); }},
    {"user", false, whole(0, 4294967295.0),
     [](SimulatedJob& job, const Field& field) { job.user = UserId{static_cast<std::uint32_t>(field.number)}; },
     [](const SimulatedJob& job) { return fmt::format("{}", static_cast<std::uint32_t>(job.user)); }},
    {"think_ms", false, Range{0, kMillisecondsMax},
     [](SimulatedJob& job, const Field& field) { job.think = field.in(kMillisecond); },
     [](const SimulatedJob& job) { return format_exactly(job.think, kMillisecond); }},
    {"startup_s", false, Range{0, kSecondsMax},
     [](SimulatedJob& job, const Field& field) { job.startup = field.in(kSecond); },
     [](const SimulatedJob& job) { return format_exactly(job.startup, kSecond); }},
    {"occupancy", false, Range{.low = 0, .high = 1, .above_low = true},
     [](SimulatedJob& job, const Field& field) { job.occupancy = field.number; },
     [](const SimulatedJob& job) { return fmt::format("{}", job.occupancy); }},
    {"interactive", false, whole(0, 1), [](SimulatedJob& job, const Field& field) { job.interactive = field.number != 0; },
     [](const SimulatedJob& job) { return fmt::format("{:d}", job.interactive); }},
    {"random_think", false, whole(0, 1), [](SimulatedJob& job, const Field& field) { job.random_think = field.number != 0; },
     [](const SimulatedJob& job) { return fmt::format("{:d}", job.random_think); }},
    {"requests_per_s", false, Range{0, kRequestsPerSecondMax},
     [](SimulatedJob& job, const Field& field) { job.requests_per_s = field.number; },
     [](const SimulatedJob& job) { return fmt::format("{}", job.requests_per_s); }},
    {"device_ms", false, Range{0, kMillisecondsMax},
     [](SimulatedJob& job, const Field& field) { job.device_time = field.in(kMillisecond); },
     [](const SimulatedJob& job) { return format_optional(job.device_time); }},
    {"host_ms", false, Range{0, kMillisecondsMax},
     [](SimulatedJob& job, const Field& field) { job.host_time = field.in(kMillisecond); },
     [](const SimulatedJob& job) { return format_optional(job.host_time); }},
    {"quantiles_ms", false, Range{.low = 1e-6, .high = kMillisecondsMax, .list = true},
     [](SimulatedJob& job, const Field& field) {
         for (std::string_view word : words_of(field.text)) job.quantiles.push_back(Field{word}.in(kMillisecond));
     },
     [](const SimulatedJob& job) {
         std::string out;
         for (Duration time : job.quantiles) out += (out.empty() ? "" : " ") + format_exactly(time, kMillisecond);
         return out;
     }},
    {"command",
     false,
     {},
     [](SimulatedJob& job, const Field& field) { job.command = field.text; },
     [](const SimulatedJob& job) { return job.command.empty() ? std::string() : format_name(job.command); }},
});

constexpr auto kNames = [] {
    std::array<std::string_view, kColumns.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kColumns[i].name;
    return names;
}();

std::string join(std::span<const std::string_view> names, std::string_view separator) {
    std::string out;
    for (std::string_view name : names) out.append(out.empty() ? "" : separator).append(name);
    return out;
}

const Column* find_column(std::string_view name) {
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    return found == kNames.end() ? nullptr : &kColumns[static_cast<std::size_t>(found - kNames.begin())];
}

/// Text from a file, fit to print: not too long, and unable to move the cursor or begin a second line.
std::string shown(std::string_view text) {
    constexpr std::size_t kShownMax = 40;
    std::size_t end = std::min(text.size(), kShownMax);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // within UTF-8
    std::string out(text.substr(0, end));
    std::replace_if(
        out.begin(), out.end(),
        [](char c) {
            return has_control_character({&c, 1});
        },
        '?');
    return end < text.size() ? out + "..." : out;
}

/// What is wrong with a name; empty: nothing.
std::string fault_of_text(std::string_view text) {
    if (trim(text).empty()) return "the field is empty";
    if (has_control_character(text)) return fmt::format("'{}' has a control character", shown(text));
    return {};
}

/// The same for a number.
std::string fault_of_number(std::string_view text, std::optional<double> number, const Range& range) {
    if (!number) return fmt::format("'{}' is not a number", shown(text));
    if (range.whole && std::floor(*number) != *number) return fmt::format("'{}' is not a whole number", shown(text));
    if (*number >= range.low && *number <= range.high && !(range.above_low && *number == range.low)) return {};
    if (range.above_low) return fmt::format("'{}' is not above {} and at most {}", shown(text), range.low, range.high);
    return fmt::format("'{}' is not between {} and {}", shown(text), range.low, range.high);
}

/// The same for several numbers.
std::string fault_of_list(std::string_view text, const Range& range) {
    double before = range.low;
    for (std::string_view word : words_of(text)) {
        const std::optional<double> number = parse_number(word);
        if (std::string fault = fault_of_number(word, number, range); !fault.empty()) return fault;
        if (*number < before) return fmt::format("'{}' is less than the number before it", shown(word));
        before = *number;
    }
    return {};
}

std::string set_field(SimulatedJob& job, const Column& column, std::string_view text) {
    if (!column.required && trim(text).empty()) return {};
    const std::optional<double> number = parse_number(text);
    std::string fault = !column.range        ? fault_of_text(text)
                        : column.range->list ? fault_of_list(text, *column.range)
                                             : fault_of_number(text, number, *column.range);
    if (fault.empty()) column.set(job, {text, number.value_or(0)});
    return fault;
}

/// Appends the fields of `line`. Returns what is wrong with the first faulty field, which is not appended; empty: nothing.
std::string split_fields(std::string_view line, std::vector<std::string>& fields) {
    for (;;) {
        const auto start = std::min(line.find_first_not_of(" \t"), line.size());
        std::string field;
        if (start < line.size() && line[start] == '"') {
            line.remove_prefix(start + 1);
            for (;;) {
                const auto quote = line.find('"');
                if (quote == std::string_view::npos) return "the quote is not closed on this line";
                field += line.substr(0, quote);
                line.remove_prefix(quote + 1);
                if (!line.starts_with('"')) break;
                field += '"';
                line.remove_prefix(1);
            }
            if (!trim(line.substr(0, line.find(','))).empty()) return "there is text after the closing quote";
        } else {
            field = trim(line.substr(0, line.find(',')));
        }
        fields.push_back(std::move(field));
        const auto comma = line.find(',');
        if (comma == std::string_view::npos) return {};
        line.remove_prefix(comma + 1);
    }
}

/// Reads line by line. Each step returns what is wrong, or nothing. After an error no step may follow.
class Parser {
public:
    explicit Parser(std::string_view file_name) : file_name_(file_name) {}

    std::optional<Error> line(std::string_view text) {
        ++line_;
        if (trim(text).empty() || text.starts_with('#')) return std::nullopt;
        std::vector<std::string> fields;
        if (const std::string fault = split_fields(text, fields); !fault.empty()) return at_column(fields.size(), fault);
        return header_.empty() ? header(fields) : row(fields);
    }

    Result<std::vector<SimulatedJob>> finish() && {
        line_ = header_line_;
        if (header_.empty()) return at_line("there is no header: the file is empty");
        if (jobs_.empty()) return at_line("no job follows the header");
        return std::move(jobs_);
    }

private:
    std::optional<Error> header(std::span<const std::string> fields) {
        header_line_ = line_;
        for (const std::string& name : fields) {
            const std::size_t index = header_.size();
            const Column* column = find_column(name);
            if (!column) return at_column(index, shown(name), unknown(shown(name)));
            if (const auto earlier = position(column)) {
                return at_column(index, name, fmt::format("it is column {} already", *earlier + 1));
            }
            header_.push_back(column);
        }
        std::vector<std::string_view> missing;
        for (const Column& column : kColumns) {
            if (column.required && !position(&column)) missing.push_back(column.name);
        }
        if (missing.empty()) return std::nullopt;
        return at_line(fmt::format("the header lacks {}", join(missing, ", ")));
    }

    static std::string unknown(std::string_view name) {
        if (name.empty()) return "it has no name";
        if (const auto nearest = nearest_name(name, kNames))
            return fmt::format("no such column; did you mean {}?", *nearest);
        return fmt::format("no such column; there are {}", join(kNames, ", "));
    }

    std::optional<Error> row(std::span<const std::string> fields) {
        if (fields.size() != header_.size()) {
            return at_column(std::min(fields.size(), header_.size()),
                             fmt::format("{} fields expected, {} found", header_.size(), fields.size()));
        }
        SimulatedJob job;
        for (std::size_t i = 0; i < fields.size(); ++i) {
            if (const std::string fault = set_field(job, *header_[i], fields[i]); !fault.empty()) return at_column(i, fault);
        }
        for (const auto& [time, name] : {std::pair{job.iteration_time, "iteration_ms"}, std::pair{job.think, "think_ms"}}) {
            if (time.ns == 0 || job.iterations <= static_cast<std::uint64_t>(kServiceMax.ns / time.ns)) continue;
            return at_column(*position(find_column(name)),
                             fmt::format("over {} iterations this is more than {} s", job.iterations, kSecondsMax));
        }
        jobs_.push_back(std::move(job));
        return std::nullopt;
    }

    std::optional<std::size_t> position(const Column* column) const {
        const auto found = std::find(header_.begin(), header_.end(), column);
        if (found == header_.end()) return std::nullopt;
        return static_cast<std::size_t>(found - header_.begin());
    }

    Error at_line(std::string_view what) const { return {fmt::format("{}:{}: {}", file_name_, line_, what)}; }
    Error at_column(std::size_t index, std::string_view name, std::string_view what) const {
        return at_line(fmt::format("column {}{}: {}", index + 1, name.empty() ? "" : fmt::format(" ({})", name), what));
    }
    Error at_column(std::size_t index, std::string_view what) const {
        return at_column(index, index < header_.size() ? header_[index]->name : "", what);
    }

    std::string_view file_name_;
    std::size_t line_ = 0;
    std::size_t header_line_ = 1;
    std::vector<const Column*> header_;
    std::vector<SimulatedJob> jobs_;
};

}  // namespace

Result<std::vector<SimulatedJob>> parse_job_file(std::string_view text, std::string_view file_name) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    Parser parser(file_name);
    for (std::string_view line : split(text, '\n')) {
        if (auto error = parser.line(line)) return *std::move(error);
    }
    return std::move(parser).finish();
}

std::string format_job_file(std::span<const SimulatedJob> jobs) {
    std::string out = join(kNames, ",") + '\n';
    for (const SimulatedJob& job : jobs) {
        for (const Column& column : kColumns) {
            out += column.format(job);
            out += &column == &kColumns.back() ? '\n' : ',';
        }
    }
    return out;
}

}  // namespace salus::sim
