#include "service/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "os/file.h"
#include "os/places.h"
#include "os/trust.h"
#include "os/user.h"
#include "policies/table.h"
#include "service/job_mapping.h"
#include "service/log.h"
#include "service/metrics_address.h"
#include "usage/usage.h"
#include "wire/assignments.h"

namespace salus::service {
namespace {

constexpr Bytes kCapacityMin = mebibytes(1);
constexpr Bytes kTraceLimitMin = Bytes{4 << 10};
constexpr std::int64_t kHostDevicesMax = 64;

/// As people type it.
std::string least_text(Bytes size) {
    const bool small = size < mebibytes(1);
    return fmt::format("{:.0f}{}", small ? size.mib() * 1024 : size.mib(), small ? "KiB" : "MiB");
}

/// At least `least`: less means that the unit was forgotten.
Bytes size_from(const std::string& option, const std::string& text, Bytes otherwise, Bytes least) {
    if (text.empty()) return otherwise;
    const auto size = parse_bytes(text);
    if (!size) throw CLI::ValidationError(option, "'" + text + "' is not a size, such as 16GiB");
    if (*size < least && parse_number(text))
        throw CLI::ValidationError(option, fmt::format("'{0}' has no unit and would be bytes; write {0}GiB", text));
    if (*size < least)
        throw CLI::ValidationError(option, fmt::format("must be at least {}; got '{}'", least_text(least), text));
    return *size;
}

std::vector<std::string_view> policy_names() {
    std::vector<std::string_view> names;
    for (const Policy* policy : all_policies()) names.push_back(policy->info.name);
    return names;
}

const Policy& policy_from(const std::string& name) {
    if (const Policy* policy = find_policy(name)) return *policy;
    const std::vector<std::string_view> names = policy_names();
    const std::string hint = did_you_mean(name, names);
    throw CLI::ValidationError("--policy",
                               fmt::format("there is no policy '{}'{}", name,
                                           hint.empty() ? fmt::format("; there are {}", fmt::join(names, ", ")) : hint));
}

/// As for `salus`, but never the machine's socket, which must be given explicitly.
std::string socket_by_default() {
    const char* named = std::getenv("SALUS_SOCKET");
    return named && *named ? os::absolute_path(named) : os::user_socket();
}

std::optional<MpsMode> mps_mode_from(const std::string& name) {
    if (name == "auto") return MpsMode::kAuto;
    if (name == "on") return MpsMode::kOn;
    if (name == "off") return MpsMode::kOff;
    return std::nullopt;
}

// ---- the limits of users: `where` says which option, or which entry of a table, has this value

Bytes memory_max_from(const std::string& where, const std::string& text) {
    return size_from(where, text, Bytes{}, kCapacityMin);
}

void check_weight_max(const std::string& where, double weight) {
    if (weight >= wire::kWeightMin && weight <= wire::kWeightMax) return;
    throw CLI::ValidationError(where, fmt::format("must be from 0.000001 to 1000000; got '{:g}'", weight));
}

void check_priority_max(const std::string& where, std::int64_t priority) {
    if (priority >= -wire::kPriorityMax && priority <= wire::kPriorityMax) return;
    throw CLI::ValidationError(where, fmt::format("must be from -1000000 to 1000000; got '{}'", priority));
}

std::int64_t integer_from(const std::string& where, const std::string& text) {
    const auto number = parse_integer(text);
    if (!number) throw CLI::ValidationError(where, "must be a whole number; got '" + text + "'");
    return *number;
}

constexpr unsigned kJobsMaxMost = 1'000'000;

/// False: a table has no such entry.
bool set_limit(LimitTable& table, const std::string& name, const std::string& where, const std::string& text) {
    if (name == "jobs-max") {
        const std::int64_t jobs = integer_from(where, text);
        if (jobs < 0 || jobs > kJobsMaxMost)
            throw CLI::ValidationError(where, fmt::format("must be from 0 to {}; got '{}'", kJobsMaxMost, jobs));
        table.jobs = static_cast<unsigned>(jobs);
    } else if (name == "memory-max") {
        table.memory = memory_max_from(where, text);
    } else if (name == "weight-max") {
        const auto weight = parse_number(text);
        if (!weight) throw CLI::ValidationError(where, "must be a number; got '" + text + "'");
        check_weight_max(where, *weight);
        table.weight = *weight;
    } else if (name == "priority-max") {
        const std::int64_t priority = integer_from(where, text);
        check_priority_max(where, priority);
        table.priority = static_cast<int>(priority);
    } else {
        return false;
    }
    return true;
}

/// CLI11 does not know that a comment may follow the name of a table.
std::string without_comments_on_tables(std::istream& text) {
    std::string all;
    for (std::string line; std::getline(text, line); all += line + "\n") {
        const std::size_t start = line.find_first_not_of(" \t"), end = line.rfind(']');
        const bool is_table = start != std::string::npos && line[start] == '[' && end != std::string::npos;
        const std::size_t behind = is_table ? line.find_first_not_of(" \t", end + 1) : std::string::npos;
        if (behind != std::string::npos && line[behind] == '#') line.resize(end + 1);
    }
    return all;
}

}  // namespace

/// CLI11's reader, which also reads the tables of users and groups, and records the options that it has read, so that errors
/// about them can name the file.
class OptionsParser::FileReader : public CLI::ConfigTOML {
public:
    explicit FileReader(const CLI::App& program) : program_(program) {}

    std::vector<CLI::ConfigItem> from_config(std::istream& text) const override {
        path_ = program_.get_config_ptr()->as<std::string>();
        if (program_.get_config_ptr()->empty()) effective_.insert("--config");  // CLI11 sets it afterwards
        std::istringstream without_comments(without_comments_on_tables(text));
        std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(without_comments);
        std::erase_if(read, [this](const CLI::ConfigItem& item) { return is_of_limits(item); });
        for (const CLI::ConfigItem& item : read) {
            const CLI::Option* option = program_.get_option_no_throw("--" + item.name);
            const bool is_section = item.name == "++" || item.name == "--";
            if (!item.parents.empty() || (!option && !is_section))
                throw CLI::ConfigError(no_option(is_section ? item.parents.at(0) : item.fullname(), is_section));
            if (option && option->empty()) effective_.insert("--" + item.name);
        }
        return read;
    }

    const LimitTables& users() const { return users_; }
    const LimitTables& groups() const { return groups_; }

    /// Whether the option has its value from the file.
    bool gave(const std::string& name) const { return effective_.contains(name); }

    /// The file that the option in this error comes from. Empty: it was given on the command line, or not at all.
    std::string path_behind(const std::string& error) const {
        const bool any = std::any_of(effective_.begin(), effective_.end(), [&](const std::string& name) {
            const std::size_t at = error.find(name);
            if (at == std::string::npos) return false;
            const std::size_t end = at + name.size();
            return end == error.size() || (error[end] != '-' && std::isalnum(static_cast<unsigned char>(error[end])) == 0);
        });
        return any ? path_ : "";
    }

private:
    std::string no_option(const std::string& name, bool is_section) const {
        std::vector<std::string> names = long_options_of(program_);
        for (std::string& known : names) known.erase(0, 2);
        const std::vector<std::string_view> all(names.begin(), names.end());
        return fmt::format("{}: there is no option '{}'{}", path_, name, is_section ? "" : did_you_mean(name, all));
    }

    /// Takes over what belongs to a table [user.NAME] or [group.NAME].
    bool is_of_limits(const CLI::ConfigItem& item) const {
        const bool is_users = !item.parents.empty() && item.parents.front() == "user";
        if (!is_users && (item.parents.empty() || item.parents.front() != "group")) return false;
        if (item.name == "++" || item.name == "--") return true;  // a table begins or ends
        std::string name;                                         // CLI11 takes it apart at each dot
        for (std::size_t i = 1; i < item.parents.size(); ++i) name += (i > 1 ? "." : "") + item.parents[i];
        if (name.size() > 1 && (name.front() == '"' || name.front() == '\'') && name.back() == name.front())
            name = name.substr(1, name.size() - 2);
        const std::string kind = item.parents.front();
        const std::string table = path_ + ": [" + kind + "." + name + "]";
        if (name.empty()) throw CLI::ConfigError(path_ + ": [" + kind + "] must name a " + kind + ": [" + kind + ".NAME]");
        const std::optional<unsigned> number = is_users ? os::user_called(name) : os::group_called(name);
        if (!number)
            throw CLI::ConfigError(table + (is_users ? ": there is no user '" : ": there is no group '") + name + "'");
        if (is_users && *number == 0) throw CLI::ConfigError(table + ": root has no limits");
        if (!set_.insert(fmt::format("{} {} {}", kind, *number, item.name)).second || item.inputs.size() != 1)
            throw CLI::ConfigError(table + ": " + item.name + " must have one value");
        LimitTable& limits = (is_users ? users_ : groups_)[*number];
        if (!set_limit(limits, item.name, table + " " + item.name, item.inputs.front()))
            throw CLI::ConfigError(table + ": there is no limit '" + item.name +
                                   "'; there are jobs-max, memory-max, weight-max and priority-max");
        return true;
    }

    const CLI::App& program_;
    mutable std::string path_;
    mutable LimitTables users_, groups_;
    mutable std::set<std::string> set_;        ///< entries of these tables
    mutable std::set<std::string> effective_;  ///< options from the file that the command line does not override
};

std::string OptionsParser::explain(const CLI::ParseError& error) const {
    const std::string path = file_->path_behind(error.what());
    return (path.empty() ? "" : path + ": ") + in_our_words(error);
}

std::string OptionsParser::in_our_words(const CLI::ParseError& error) const {
    // These two are thrown by this file, with what they say.
    if (dynamic_cast<const CLI::ValidationError*>(&error) || dynamic_cast<const CLI::ConfigError*>(&error))
        return error.what();
    if (dynamic_cast<const CLI::FileError*>(&error)) {
        const Result<std::string> read = os::read_file(program_.get_config_ptr()->as<std::string>());
        return "--config: " + (read ? error.what() : read.error());
    }
    return salus::explain(program_, error);
}

std::optional<unsigned> host_devices_in(std::string_view device) {
    constexpr std::string_view kMany = "host:";
    if (device == "host") return 1;
    if (!device.starts_with(kMany)) return std::nullopt;
    const auto count = parse_integer(device.substr(kMany.size()));
    return count && *count >= 1 && *count <= kHostDevicesMax ? std::optional(static_cast<unsigned>(*count)) : std::nullopt;
}

std::string default_configuration_file() { return os::user_directory("XDG_CONFIG_HOME", "/.config") + "/salusd.toml"; }

OptionsParser::OptionsParser(CLI::App& program) : program_(program) {
    auto reader = std::make_shared<FileReader>(program);
    file_ = reader;
    program.config_formatter(std::move(reader));
    program
        .set_config("--config", default_configuration_file(), "a TOML file with any of these options, without the dashes")
        ->check(CLI::Validator([](const std::string& path) { return os::why_distrusted(path).value_or(""); }, ""));
    program.allow_config_extras(CLI::config_extras_mode::error);
    program.add_option("--policy", plain_.policy, "order of turns: fifo, srtf, las, fair, rr, priority, pack")
        ->type_name(fmt::format("{}", fmt::join(policy_names(), "|")))
        ->capture_default_str();
    program.add_option("--capacity", capacity_, "memory for jobs on each device (default: most of its memory)");
    program.add_option("--lanes", plain_.lanes, "lanes that may run at once (default: as the policy wants)");
    program
        .add_option("--overlap", overlap_,
                    "measure: let batch jobs run at once where that is measured to be faster; off; auto: measure on GPUs")
        ->type_name("auto|off|measure")
        ->capture_default_str();
    program.add_option("--page-gpu", page_gpu_, "off or on: with paging, also move memory of a GPU to the host and back")
        ->type_name("WHEN");
    program
        .add_option("--page-dir", plain_.page_directory,
                    "Directory for memory paged out of a GPU that the host's memory cannot hold")
        ->type_name("DIRECTORY");
    program.add_option("--paging", paging_, "on or off: page out waiting jobs to admit others")
        ->type_name("on|off")
        ->capture_default_str();
    program
        .add_option("--device", plain_.device,
                    "auto (the GPUs if there are any), cuda or host; host:N divides the host into N devices, for a try")
        ->type_name("auto|cuda|host")
        ->capture_default_str();
    program
        .add_option("--placement", placement_,
                    "spread or pack: where batch jobs go among several GPUs; interactive jobs are spread")
        ->type_name("spread|pack")
        ->capture_default_str();
    program.add_option("--mps", mps_, "auto, on or off: run NVIDIA's MPS; without it, lanes take turns on a GPU")
        ->type_name("auto|on|off")
        ->capture_default_str();
    program.add_option("--min-turn-ms", min_turn_ms_,
                       "minimum length of a turn, except under priority (default: derived from the cost of a switch)");
    program
        .add_option("--rehome-after-s", rehome_after_s_,
                    "if a job stops or does nothing inside an iteration, others leave its lane after this time")
        ->capture_default_str();
    program
        .add_option("--page-idle-s", page_idle_s_,
                    "with paging, page out a job that has idled for so long, even if nobody needs its memory; 0: never")
        ->capture_default_str();
    program.add_option("--socket", plain_.socket,
                       "where to listen (default: $SALUS_SOCKET, else salus/socket in the user's runtime directory)");
    program.add_option("--state", plain_.state,
                       "directory for trace, logs and history (default: " + os::default_state_directory() + ")");
    program.add_option("--log-level", log_level_, "error, warning, info or debug")
        ->type_name("error|warning|info|debug")
        ->capture_default_str();
    program.add_option("--users", users_, "own or all: users who may attach")->type_name("own|all")->capture_default_str();
    program
        .add_option("--connections-per-user", plain_.connections_per_user,
                    "limit; a job takes one, and one more for each of its processes")
        ->capture_default_str();
    program
        .add_option("--share-by", share_by_,
                    "user or job: share time between users first, or between all jobs (default: user if users is all)")
        ->type_name("user|job");
    program.add_option("--show-others", show_others_, "all or numbers: what users see of others' jobs")
        ->type_name("all|numbers")
        ->capture_default_str();
    program
        .add_option("--metrics", plain_.metrics,
                    "off, 127.0.0.1:PORT, [::1]:PORT or unix:/PATH: where Prometheus reads the metrics")
        ->capture_default_str();
    program.add_option("--job-mapping-dir", plain_.job_mapping,
                       "directory for a file for each GPU with the numbers of its jobs, for NVIDIA's DCGM exporter");
    program
        .add_option("--user-jobs-max", plain_.user_limits.others.jobs,
                    "jobs of a user that may run at once on a device; 0: any number")
        ->capture_default_str();
    program.add_option("--user-memory-max", user_memory_max_,
                       "memory that a user's jobs may have together on a device (default: all)");
    program.add_option("--user-weight-max", user_weight_max_,
                       "highest weight of a user's job (default: none; 1 if users is all and share-by is job)");
    program.add_option("--user-priority-max", user_priority_max_,
                       "highest priority of a user's job (default: none; 0 if users is all and share-by is job)");
    program.add_option("--trace-limit", trace_limit_, "disk space for the trace (default: 256MiB)");
    program
        .add_flag("--as-before", as_before_,
                  "take over options of the last service that this command line lacks; `salus run` starts a service so")
        ->configurable(false);
}

GivenOptions OptionsParser::on_command_line() const {
    GivenOptions found;
    for (const CLI::Option* option : program_.get_options()) {
        const std::string& name = option->get_lnames().at(0);
        const bool is_value = option->get_items_expected_max() > 0 && option->count() > 0;
        if (!is_value || file_->gave("--" + name)) continue;
        const std::string value = option->results().back();
        const bool is_path =
            name == "config" || name == "socket" || name == "state" || name == "job-mapping-dir" || name == "page-dir";
        found.emplace_back(name, is_path ? os::absolute_path(value) : value);
    }
    return found;
}

GivenOptions OptionsParser::given() const {
    GivenOptions given = on_command_line();
    std::erase_if(given, [](const auto& option) { return option.first == "socket" || option.first == "state"; });
    return given;
}

std::vector<std::string> OptionsParser::arguments() const {
    std::vector<std::string> arguments;
    for (const auto& [name, value] : on_command_line()) arguments.push_back("--" + name + "=" + value);
    if (as_before_) arguments.emplace_back("--as-before");
    return arguments;
}

/// Weights and priorities of several users compete only if time is not shared by user: then nobody sets their own above the
/// others', unless the administrator lets them.
void OptionsParser::read_user_limits(Options& options) const {
    UserLimits& limits = options.user_limits.others;
    limits.memory = memory_max_from("--user-memory-max", user_memory_max_);
    if (user_weight_max_) check_weight_max("--user-weight-max", *user_weight_max_);
    if (user_priority_max_) check_priority_max("--user-priority-max", *user_priority_max_);
    const bool compete = options.all_users && !options.share_by_user;
    limits.weight = user_weight_max_ || !compete ? user_weight_max_ : 1;
    limits.priority = user_priority_max_ || !compete ? user_priority_max_ : 0;
    options.user_limits.users = file_->users();
    options.user_limits.groups = file_->groups();
}

Options OptionsParser::finish() const {
    Options options = plain_;
    options.policy = policy_from(options.policy).info.name;
    if (placement_ != "spread" && placement_ != "pack")
        throw CLI::ValidationError("--placement", "must be spread or pack; got '" + placement_ + "'");
    options.placement = placement_ == "pack" ? Packing::kPack : Packing::kSpread;
    if (options.device != "auto" && options.device != "cuda" && !host_devices_in(options.device))
        throw CLI::ValidationError("--device", "there is no device '" + options.device + "'");
    options.capacity = size_from("--capacity", capacity_, Bytes{}, kCapacityMin);
    options.trace_limit = size_from("--trace-limit", trace_limit_, options.trace_limit, kTraceLimitMin);
    if (paging_ != "on" && paging_ != "off")
        throw CLI::ValidationError("--paging", "must be on or off; got '" + paging_ + "'");
    options.paging = paging_ == "on";
    if (page_gpu_ != "on" && page_gpu_ != "off")
        throw CLI::ValidationError("--page-gpu", "must be off or on; got '" + page_gpu_ + "'");
    options.page_gpu = page_gpu_ == "on";
    constexpr std::size_t kPathMost = 255;  // it goes into a message
    if (!options.page_directory.empty()) options.page_directory = os::absolute_path(options.page_directory);
    if (options.page_directory.size() > kPathMost) throw CLI::ValidationError("--page-dir", "is longer than 255 characters");
    std::error_code unknown;
    if (!options.page_directory.empty() && !std::filesystem::is_directory(options.page_directory, unknown))
        throw CLI::ValidationError("--page-dir", fmt::format("there is no directory '{}'", options.page_directory));
    if (overlap_ != "auto" && overlap_ != "off" && overlap_ != "measure")
        throw CLI::ValidationError("--overlap", "must be auto, off or measure; got '" + overlap_ + "'");
    if (overlap_ != "auto") options.overlap = overlap_ == "measure";
    if (users_ != "own" && users_ != "all")
        throw CLI::ValidationError("--users", "must be own or all; got '" + users_ + "'");
    options.all_users = users_ == "all";
    if (!share_by_.empty() && share_by_ != "user" && share_by_ != "job")
        throw CLI::ValidationError("--share-by", "must be user or job; got '" + share_by_ + "'");
    options.share_by_user = share_by_.empty() ? options.all_users : share_by_ == "user";
    if (show_others_ != "all" && show_others_ != "numbers")
        throw CLI::ValidationError("--show-others", "must be all or numbers; got '" + show_others_ + "'");
    options.hides_others = show_others_ == "numbers";
    if (const auto address = metrics_address_from(options.metrics); !address)
        throw CLI::ValidationError("--metrics", address.error());
    if (!options.job_mapping.empty()) options.job_mapping = os::absolute_path(options.job_mapping);
    if (const std::string why = why_no_job_mapping_in(options.job_mapping); !why.empty())
        throw CLI::ValidationError("--job-mapping-dir", why);
    read_user_limits(options);
    const auto mps = mps_mode_from(mps_);
    if (!mps) throw CLI::ValidationError("--mps", "must be auto, on or off; got '" + mps_ + "'");
    options.mps = *mps;
    const auto level = log_level_from(log_level_);
    if (!level) throw CLI::ValidationError("--log-level", "must be error, warning, info or debug; got '" + log_level_ + "'");
    options.log_level = *level;
    if (min_turn_ms_ && !(*min_turn_ms_ >= 0 && *min_turn_ms_ <= 60'000))
        throw CLI::ValidationError("--min-turn-ms", "must be from 0 to 60000");
    if (!(rehome_after_s_ >= 0 && rehome_after_s_ <= 86'400))
        throw CLI::ValidationError("--rehome-after-s", "must be from 0 to 86400");
    if (!(page_idle_s_ >= 0 && page_idle_s_ <= 86'400'000))
        throw CLI::ValidationError("--page-idle-s", "must be from 0 to 86400000");
    if (const unsigned most = options.connections_per_user; most < 1 || most > kConnectionsMax)
        throw CLI::ValidationError("--connections-per-user",
                                   fmt::format("must be from 1 to {}; got '{}'", kConnectionsMax, most));
    if (min_turn_ms_) options.min_turn = seconds_of(*min_turn_ms_ / 1e3);
    options.rehome_after = seconds_of(rehome_after_s_);
    options.page_idle_after = seconds_of(page_idle_s_);
    options.socket = options.socket.empty() ? socket_by_default() : os::absolute_path(options.socket);
    options.state = options.state.empty() ? os::default_state_directory() : os::absolute_path(options.state);
    return options;
}

// ------------------------------------------------------------------------------------------------------ the last service

namespace {

struct Parsed {
    Options options;
    bool as_before = false;
};

Result<Parsed> parse(std::vector<std::string> arguments) {
    CLI::App program("", "salusd");
    OptionsParser parser(program);
    try {
        std::ranges::reverse(arguments);  // as CLI11 wants them
        program.parse(std::move(arguments));
        Parsed parsed{parser.finish(), parser.as_before()};
        parsed.options.given = parser.given();
        return parsed;
    } catch (const CLI::ParseError& error) {
        return Error{parser.explain(error)};
    }
}

bool has(const GivenOptions& options, std::string_view name) {
    return std::ranges::any_of(options, [&](const auto& option) { return option.first == name; });
}

}  // namespace

Result<Options> find_options(const std::vector<std::string>& arguments) {
    Result<Parsed> parsed = parse(arguments);
    if (!parsed) return Error{parsed.error()};
    Options options = std::move(parsed.value().options);
    const GivenOptions now = options.given;
    const Kept kept = read_kept(options.state);
    if (parsed.value().as_before && !kept.given.empty()) {
        std::vector<std::string> all = arguments;
        for (const auto& [name, value] : kept.given) {
            if (!has(now, name)) all.push_back("--" + name + "=" + value);
        }
        Result<Parsed> again = parse(all);
        if (again) options = std::move(again.value().options);
        else log(LogLevel::kWarning, "the options of the last service are left out: {}", again.error());
    }
    options.configured_policy = options.policy;
    // Whoever has configured another policy since then wants that one.
    const bool holds = !has(now, "policy") && kept.instead_of == options.policy && find_policy(kept.policy);
    if (holds) options.policy = kept.policy;
    return options;
}

}  // namespace salus::service
