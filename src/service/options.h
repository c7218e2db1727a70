// The options of the service. They have the same names on the command line and in the TOML file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "core/placement.h"
#include "service/kept.h"
#include "service/log.h"
#include "service/user_limits.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace salus::service {

/// Whether jobs use the device through NVIDIA's MPS. kAuto: if several lanes are to run at once.
enum class MpsMode { kAuto, kOn, kOff };

struct Options {
    std::string policy = "fair";
    std::string configured_policy;  ///< without `salus policy`; empty: the same
    Bytes capacity;                 ///< 0: the device's memory
    unsigned lanes = 0;             ///< 0: as many as the policy wants
    /// Batch jobs run at once where that is measured to be faster. Nothing: on GPUs.
    std::optional<bool> overlap;
    bool paging = true;
    bool page_gpu = false;                 ///< a GPU's memory, too
    std::string page_directory;            ///< for memory paged out of a GPU; empty: the client chooses
    std::string device = "auto";           ///< the GPUs if there are any, else the host
    Packing placement = Packing::kSpread;  ///< of batch jobs, on several devices
    MpsMode mps = MpsMode::kAuto;
    std::optional<Duration> min_turn;  ///< nothing: depends on the device
    std::string socket;                ///< empty: the user's
    std::string state;                 ///< directory for trace, logs and history; empty: the user's
    LogLevel log_level = LogLevel::kInfo;
    Bytes trace_limit = mebibytes(256);
    Duration rehome_after = milliseconds(300);
    Duration page_idle_after;  ///< 0: never
    unsigned connections_per_user = 1024;
    bool all_users = false;       ///< users other than the service's own may attach; each has lanes of their own
    bool share_by_user = false;   ///< time is shared between users first
    bool hides_others = false;    ///< users see numbers of others' jobs, not names
    std::string metrics = "off";  ///< where: see metrics_address.h
    std::string job_mapping;      ///< directory; empty: no files. See job_mapping.h
    ConfiguredLimits user_limits;
    GivenOptions given;  ///< as on the command line; the next service may take them over
};

/// For all users together: a flood must not use up the service's descriptors.
inline constexpr unsigned kConnectionsMax = 4096;

/// Adds the options to a program. Call finish() once the program has parsed its arguments.
class OptionsParser {
public:
    explicit OptionsParser(CLI::App& program);
    /// Throws CLI::ValidationError with one line if a value makes no sense.
    Options finish() const;
    /// The options that the command line has, as text, except for those that say which service this is.
    GivenOptions given() const;
    /// The whole command line again, with absolute paths.
    std::vector<std::string> arguments() const;
    /// Whether options that the command line lacks are those of the last service's.
    bool as_before() const { return as_before_; }
    /// What is wrong, in one line. Names the file if the value comes from there.
    std::string explain(const CLI::ParseError& error) const;

private:
    class FileReader;
    std::string in_our_words(const CLI::ParseError& error) const;
    GivenOptions on_command_line() const;
    void read_user_limits(Options& options) const;

    CLI::App& program_;
    std::shared_ptr<const FileReader> file_;  ///< shared with CLI11
    bool as_before_ = false;
    Options plain_;
    std::string capacity_;
    std::string trace_limit_;
    std::string paging_ = "on";
    std::string page_gpu_ = "off";
    std::string overlap_ = "auto";
    std::string placement_ = "spread";
    std::string mps_ = "auto";
    std::string log_level_ = "info";
    std::string users_ = "own";
    std::string share_by_;
    std::string show_others_ = "all";
    std::string user_memory_max_;
    std::optional<double> user_weight_max_;
    std::optional<int> user_priority_max_;
    std::optional<double> min_turn_ms_;
    double rehome_after_s_ = 0.3;
    double page_idle_s_ = 0;
};

/// The options of a service that starts now, or reads its configuration again: those on its command line, then what the last
/// service left (service/kept.h), then the configuration. An error is one line.
Result<Options> find_options(const std::vector<std::string>& arguments);

/// How many devices the host is to be: 1 for "host", 4 for "host:4". Nothing: this is not the host, or makes no sense.
std::optional<unsigned> host_devices_in(std::string_view device);

/// The default path of a user's configuration.
std::string default_configuration_file();

}  // namespace salus::service
