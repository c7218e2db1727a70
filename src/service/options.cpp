#include "service/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "os/places.h"
#include "os/trust.h"
#include "policies/table.h"

namespace salus::service {
namespace {

/// A smaller value means that the unit was forgotten.
constexpr Bytes kCapacityMin = mebibytes(1);

Bytes size_from(const char* option, const std::string& text, Bytes otherwise) {
    if (text.empty()) return otherwise;
    const auto size = parse_bytes(text);
    if (!size) throw CLI::ValidationError(option, "'" + text + "' is not a size, such as 16GiB");
    return *size;
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

}  // namespace

/// CLI11's reader, which also records the options that it has read, so that errors about them can name the file.
class OptionsParser::FileReader : public CLI::ConfigTOML {
public:
    explicit FileReader(const CLI::App& program) : program_(program) {}

    std::vector<CLI::ConfigItem> from_config(std::istream& text) const override {
        path_ = program_.get_config_ptr()->as<std::string>();
        std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(text);
        for (const CLI::ConfigItem& item : read) {
            const CLI::Option* option = program_.get_option_no_throw("--" + item.name);
            const bool is_section = item.name == "++" || item.name == "--";
            if (!item.parents.empty() || (!option && !is_section))
                throw CLI::ConfigError(path_ + ": there is no option '" +
                                       (is_section ? item.parents.at(0) : item.fullname()) + "'");
            if (option && option->empty()) effective_.insert("--" + item.name);
        }
        return read;
    }

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
    const CLI::App& program_;
    mutable std::string path_;
    mutable std::set<std::string> effective_;  ///< options from the file that the command line does not override
};

std::string OptionsParser::explain(const CLI::ParseError& error) const {
    const std::string path = file_->path_behind(error.what());
    return path.empty() ? error.what() : path + ": " + error.what();
}

std::string default_configuration_file() { return os::user_directory("XDG_CONFIG_HOME", "/.config") + "/salusd.toml"; }

OptionsParser::OptionsParser(CLI::App& program) {
    auto reader = std::make_shared<FileReader>(program);
    file_ = reader;
    program.config_formatter(std::move(reader));
    program
        .set_config("--config", default_configuration_file(), "a TOML file with any of these options, without the dashes")
        ->check(CLI::Validator([](const std::string& path) { return os::why_distrusted(path).value_or(""); }, ""));
    program.allow_config_extras(CLI::config_extras_mode::error);
    program.add_option("--policy", plain_.policy, "order of turns: fifo, srtf, las, fair, rr, priority, pack")
        ->capture_default_str();
    program.add_option("--capacity", capacity_, "total memory for jobs (default: most of the device's memory)");
    program.add_option("--lanes", plain_.lanes, "lanes that may run at once (default: as the policy wants)");
    program.add_option("--paging", paging_, "on or off: page out waiting jobs to admit others")->capture_default_str();
    program.add_option("--device", plain_.device, "auto (a GPU if there is one), cuda or host")->capture_default_str();
    program.add_option("--mps", mps_, "auto, on or off: run NVIDIA's MPS; without it, lanes take turns on a GPU")
        ->capture_default_str();
    program.add_option("--min-turn-ms", min_turn_ms_,
                       "minimum length of a turn, except under priority (default: derived from the cost of a switch)");
    program
        .add_option("--rehome-after-s", rehome_after_s_,
                    "if a job stops or does nothing inside an iteration, others leave its lane after this time")
        ->capture_default_str();
    program.add_option("--socket", plain_.socket,
                       "where to listen (default: $SALUS_SOCKET, else salus/socket in the user's runtime directory)");
    program.add_option("--state", plain_.state,
                       "directory for trace, logs and history (default: " + os::default_state_directory() + ")");
    program.add_option("--log-level", log_level_, "error, warning, info or debug")->capture_default_str();
    program.add_option("--users", users_, "own or all: users who may attach")->capture_default_str();
    program
        .add_option("--connections-per-user", plain_.connections_per_user,
                    "limit; a job takes one, and one more for each of its processes")
        ->capture_default_str();
    program.add_option("--trace-limit", trace_limit_, "disk space for the trace (default: 256MiB)");
}

Options OptionsParser::finish() const {
    Options options = plain_;
    if (!find_policy(options.policy)) throw CLI::ValidationError("--policy", "there is no policy '" + options.policy + "'");
    if (options.device != "auto" && options.device != "cuda" && options.device != "host")
        throw CLI::ValidationError("--device", "there is no device '" + options.device + "'");
    options.capacity = size_from("--capacity", capacity_, Bytes{});
    if (!capacity_.empty() && options.capacity < kCapacityMin)
        throw CLI::ValidationError("--capacity", "must be at least 1MiB; got '" + capacity_ + "'");
    options.trace_limit = size_from("--trace-limit", trace_limit_, options.trace_limit);
    if (paging_ != "on" && paging_ != "off")
        throw CLI::ValidationError("--paging", "must be on or off; got '" + paging_ + "'");
    options.paging = paging_ == "on";
    if (users_ != "own" && users_ != "all")
        throw CLI::ValidationError("--users", "must be own or all; got '" + users_ + "'");
    options.all_users = users_ == "all";
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
    if (const unsigned most = options.connections_per_user; most < 1 || most > kConnectionsMax)
        throw CLI::ValidationError("--connections-per-user",
                                   fmt::format("must be from 1 to {}; got '{}'", kConnectionsMax, most));
    if (min_turn_ms_) options.min_turn = seconds_of(*min_turn_ms_ / 1e3);
    options.rehome_after = seconds_of(rehome_after_s_);
    options.socket = options.socket.empty() ? socket_by_default() : os::absolute_path(options.socket);
    options.state = options.state.empty() ? os::default_state_directory() : os::absolute_path(options.state);
    return options;
}

}  // namespace salus::service
