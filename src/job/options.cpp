#include "job/options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "usage/usage.h"

namespace salus::job {
namespace {

struct UsageError {
    std::string message;
};

/// Counts stay far from where sums of them could overflow.
constexpr std::int64_t kCountMax = 1'000'000'000'000'000;
constexpr double kMillisecondsMax = 1e9;

std::int64_t integer(const std::string& option, const std::string& text, std::int64_t least, std::int64_t most) {
    const auto value = parse_integer(text);
    if (!value || *value < least || *value > most) {
        throw UsageError{option + ": '" + text + "' is not a whole number from " + std::to_string(least) + " to " +
                         std::to_string(most)};
    }
    return *value;
}

std::uint64_t count(const std::string& option, const std::string& text, std::int64_t least = 0) {
    return static_cast<std::uint64_t>(integer(option, text, least, kCountMax));
}

double positive(const std::string& option, const std::string& text, double most) {
    const auto value = parse_number(text);
    if (!value || *value < 1e-6 || *value > most) {  // the service refuses smaller values
        throw UsageError{option + ": '" + text + "' is not a number from 0.000001 to " +
                         std::to_string(static_cast<std::int64_t>(most))};
    }
    return *value;
}

Duration milliseconds_of(const std::string& option, const std::string& text) {
    const auto value = parse_number(text);
    if (!value || *value < 0 || *value > kMillisecondsMax)
        throw UsageError{option + ": '" + text + "' is not a number of milliseconds from 0 to 1000000000"};
    return seconds_of(*value * 1e-3);
}

/// "0" and "0MiB", which are no sizes elsewhere.
bool is_zero_size(const std::string& text) {
    if (!text.starts_with('0')) return false;
    if (text.size() == 1) return true;
    return (std::isalpha(static_cast<unsigned char>(text[1])) || text[1] == ' ') && parse_bytes("1" + text.substr(1));
}

Bytes size_of(const std::string& option, const std::string& text, bool zero_allowed) {
    if (zero_allowed && is_zero_size(text)) return {};
    const auto bytes = parse_bytes(text);
    if (!bytes) throw UsageError{option + ": '" + text + "' is not a size such as 256MiB" + (zero_allowed ? ", or 0" : "")};
    return *bytes;
}

/// Persistent state is made of words.
Bytes whole_words(Bytes size) { return {(size.count + 7) / 8 * 8}; }

std::string line(const std::string& option, const std::string& text) {
    const auto is_control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
    if (text.empty() || std::any_of(text.begin(), text.end(), is_control))
        throw UsageError{option + ": it must be one line of text, and not empty"};
    return text;
}

template <typename T>
T one_of(const std::string& option, const std::string& text, std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::string names;
    for (const auto& [name, value] : choices) {
        if (text == name) return value;
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    throw UsageError{option + ": '" + text + "' is none of " + names};
}

/// Adds options whose text we read ourselves, so that every complaint names the option and what was typed.
class Adder {
public:
    explicit Adder(CLI::App& app) : app_(app) {}

    void group(const std::string& name) { group_ = name; }
    template <typename Read>
    void add(const std::string& option, const std::string& type, const std::string& help, Read read) {
        app_.add_option_function<std::string>(
                option, [option, read](const std::string& text) { read(option, text); }, help)
            ->type_name(type)
            ->group(group_);
    }
    void flag(const std::string& option, bool& into, const std::string& help) {
        app_.add_flag(option, into, help)->group(group_);
    }

private:
    CLI::App& app_;
    std::string group_;
};

/// What only makes sense together with other options.
struct Given {
    bool inference = false;
    bool crash = false;
    bool hang = false;
};

void add_memory(Adder& a, Options& o) {
    a.group("Memory");
    a.add("--persistent", "SIZE", "memory kept across iterations (64MiB)",
          [&](const auto& option, const auto& text) { o.persistent = whole_words(size_of(option, text, true)); });
    a.add("--persistent-block", "SIZE", "block size of persistent memory (16MiB)",
          [&](const auto& option, const auto& text) { o.persistent_block = whole_words(size_of(option, text, false)); });
    a.add("--ephemeral", "SIZE", "scratch memory, used only inside an iteration (256MiB)",
          [&](const auto& option, const auto& text) { o.ephemeral = size_of(option, text, true); });
    a.add("--block", "SIZE", "block size of scratch memory (32MiB)",
          [&](const auto& option, const auto& text) { o.block = size_of(option, text, false); });
    a.add("--alloc", "KIND", "kind of scratch memory: auto or ephemeral (auto)", [&](const auto& option, const auto& text) {
        o.scratch_kind = one_of<salus_kind>(option, text, {{"auto", SALUS_AUTO}, {"ephemeral", SALUS_EPHEMERAL}});
    });
    a.add("--touch", "HOW", "full or pages: write and verify all of the scratch memory, or one word in each page (full)",
          [&](const auto& option, const auto& text) {
              o.touch = one_of<Touch>(option, text, {{"full", Touch::kFull}, {"pages", Touch::kPages}});
          });
    a.add("--grow-at", "K", "grow to --grow-persistent and --grow-ephemeral from iteration K on",
          [&](const auto& option, const auto& text) { o.grow_at = count(option, text); });
    a.add("--grow-persistent", "SIZE", "new total",
          [&](const auto& option, const auto& text) { o.grow_persistent = whole_words(size_of(option, text, false)); });
    a.add("--grow-ephemeral", "SIZE", "new total",
          [&](const auto& option, const auto& text) { o.grow_ephemeral = size_of(option, text, false); });
    a.add("--survive", "N", "keep a scratch block of every N-th iteration until the next iteration (0: never)",
          [&](const auto& option, const auto& text) { o.survive = count(option, text); });
}

void add_course(Adder& a, Options& o, Given& given) {
    a.group("Course");
    a.add("--iterations", "N", "number of iterations (100)",
          [&](const auto& option, const auto& text) { o.iterations = count(option, text, 1); });
    a.add("--start-at", "K", "number of the first iteration (0)",
          [&](const auto& option, const auto& text) { o.start_at = count(option, text); });
    a.add("--work", "UNITS", "work per iteration; a unit takes about a microsecond (10000)",
          [&](const auto& option, const auto& text) { o.work = count(option, text); });
    a.add("--threads", "N", "threads that share the work and scratch memory of an iteration (1)",
          [&](const auto& option, const auto& text) { o.threads = static_cast<unsigned>(integer(option, text, 1, 1024)); });
    a.add("--kind", "KIND", "training, or inference with one iteration per request (training)",
          [&](const auto& option, const auto& text) {
              given.inference = one_of<bool>(option, text, {{"training", false}, {"inference", true}});
          });
    a.add("--rate", "R", "mean requests per second, arriving at random",
          [&](const auto& option, const auto& text) { o.rate = positive(option, text, 1e6); });
    a.add("--think-ms", "X", "sleep between iterations (0)",
          [&](const auto& option, const auto& text) { o.think = milliseconds_of(option, text); });
    a.add("--startup-ms", "X", "sleep before attaching (0)",
          [&](const auto& option, const auto& text) { o.startup = milliseconds_of(option, text); });
    a.add("--seed", "N", "seed of patterns and arrivals (1)",
          [&](const auto& option, const auto& text) { o.seed = count(option, text); });
}

void add_sharing(Adder& a, Options& o) {
    a.group("Sharing");
    a.add("--name", "TEXT", "name shown by `salus ps`",
          [&](const auto& option, const auto& text) { o.name = line(option, text); });
    a.add("--priority", "N", "higher is more urgent", [&](const auto& option, const auto& text) {
        using Limits = std::numeric_limits<std::int32_t>;
        o.priority = static_cast<std::int32_t>(integer(option, text, Limits::min(), Limits::max()));
    });
    a.add("--weight", "X", "share under the fair policy",
          [&](const auto& option, const auto& text) { o.weight = positive(option, text, 1e6); });
    a.add("--occupancy", "X", "share of the device that it can use alone, up to 1",
          [&](const auto& option, const auto& text) { o.occupancy = positive(option, text, 1); });
    a.flag("--iterations-known", o.iterations_known, "tell Salus the number of iterations");
    a.flag("--profile-known", o.profile_known, "tell Salus the memory needs when attaching");
    a.flag("--alone", o.alone, "run without Salus, with ordinary memory");
    a.flag("--join", o.join, "without `salus run`: become a job by itself, in the environment that `salus env` prints");
}

void add_faults(Adder& a, Options& o, Given& given) {
    a.group("Faults");
    a.add("--fork-at", "K", "fork inside iteration K; the child uses and frees memory",
          [&](const auto& option, const auto& text) { o.fork_at = count(option, text); });
    a.add("--crash-at", "K", "die of SIGKILL in iteration K",
          [&](const auto& option, const auto& text) { o.crash_at = count(option, text); });
    a.add("--crash", "WHEN", "before, during or right after iteration K (during)",
          [&](const auto& option, const auto& text) {
              given.crash = true;
              o.crash = one_of<Crash>(option, text,
                                      {{"before", Crash::kBefore}, {"during", Crash::kDuring}, {"after", Crash::kAfter}});
          });
    a.add("--hang-at", "K", "sleep forever in iteration K",
          [&](const auto& option, const auto& text) { o.hang_at = count(option, text); });
    a.add("--hang", "WHERE", "inside the iteration, or idle after its end (inside)",
          [&](const auto& option, const auto& text) {
              given.hang = true;
              o.hang = one_of<Hang>(option, text, {{"idle", Hang::kIdle}, {"inside", Hang::kInside}});
          });
}

void add_output(Adder& a, Options& o) {
    a.group("Output");
    a.add("--log", "FILE", "append 'iteration K' after each iteration",
          [&](const auto& option, const auto& text) { o.log = line(option, text); });
    a.add("--report", "FILE", "write a report as JSON; - is standard output",
          [&](const auto& option, const auto& text) { o.report = line(option, text); });
    a.flag("--quiet", o.quiet, "print no summary");
    a.add("--measure", "N", "only print the median milliseconds of N iterations, run alone after 2 warm-up iterations",
          [&](const auto& option, const auto& text) {
              o.mode = Mode::kMeasure;
              o.iterations = count(option, text, 1) + kWarmUp;
          });
}

void check_growth(const char* option, Bytes grown, Bytes before) {
    if (grown > Bytes{} && grown < before)
        throw UsageError{std::string(option) + ": " + format_bytes(grown) + " is less than the " + format_bytes(before) +
                         " that it starts with"};
}

/// Checked now rather than after hours of work.
void check_report(const std::string& path) {
    namespace fs = std::filesystem;
    if (path.empty() || path == "-") return;
    std::error_code error;
    const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    const bool writable = fs::exists(path, error) ? !fs::is_directory(path, error) && ::access(path.c_str(), W_OK) == 0
                                                  : fs::is_directory(parent, error) && ::access(parent.c_str(), W_OK) == 0;
    if (!writable) throw UsageError{"--report: cannot write '" + path + "'"};
}

void check(const Options& o, const Given& given) {
    const bool grows = o.grow_persistent > Bytes{} || o.grow_ephemeral > Bytes{};
    if (o.grow_at && !grows) throw UsageError{"--grow-at needs --grow-persistent or --grow-ephemeral"};
    if (grows && !o.grow_at) throw UsageError{"--grow-persistent and --grow-ephemeral need --grow-at"};
    check_growth("--grow-persistent", o.grow_persistent, o.persistent);
    check_growth("--grow-ephemeral", o.grow_ephemeral, o.ephemeral);
    if (o.survive > 0 && o.ephemeral == Bytes{}) throw UsageError{"--survive needs scratch: --ephemeral is 0"};
    if (given.inference && o.rate == 0) throw UsageError{"--kind inference needs --rate"};
    if (!given.inference && o.rate > 0) throw UsageError{"--rate is for --kind inference"};
    if (given.inference && o.think > Duration{})
        throw UsageError{"--think-ms is for training; inference requests arrive by --rate"};
    if (given.crash && !o.crash_at) throw UsageError{"--crash needs --crash-at"};
    if (given.hang && !o.hang_at) throw UsageError{"--hang needs --hang-at"};
    check_report(o.report);
}

/// The same iterations and nothing around them.
Options bare(Options o) {
    o.alone = o.quiet = true;
    o.think = o.startup = {};
    o.rate = 0;
    o.fork_at = o.crash_at = o.hang_at = std::nullopt;
    o.log = o.report = "";
    return o;
}

}  // namespace

Result<Options> read_options(int argc, const char* const* argv) {
    CLI::App app("Behaves like a deep-learning job and checks that nobody else touches its memory.", "salus-job");
    Options options;
    Given given;
    Adder adder(app);
    bool calibrate = false;
    add_memory(adder, options);
    add_course(adder, options, given);
    add_sharing(adder, options);
    add_faults(adder, options, given);
    add_output(adder, options);
    adder.flag("--calibrate", calibrate, "only print the units of work per millisecond");
    try {
        app.parse(argc, argv);
        if (calibrate && options.mode == Mode::kMeasure) throw UsageError{"--calibrate and --measure: give one of them"};
        check(options, given);
    } catch (const CLI::CallForHelp&) {
        options.mode = Mode::kHelp;
        options.help = app.help();
        return options;
    } catch (const CLI::ParseError& error) {
        return Error{explain(app, error)};
    } catch (const UsageError& error) {
        return Error{error.message};
    }
    if (calibrate) options.mode = Mode::kCalibrate;
    return options.mode == Mode::kMeasure ? bare(options) : options;
}

}  // namespace salus::job
