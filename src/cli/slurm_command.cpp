// salus slurm: what Slurm must know of this node's service, as text for its configuration (docs/cluster.md).
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/python_command.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/history_file.h"
#include "cli/service_link.h"
#include "os/machine.h"

namespace salus::cli {
namespace {

constexpr Bytes kShard = mebibytes(1);

std::int64_t mebibytes_in(Bytes bytes) { return (bytes.count + kShard.count - 1) / kShard.count; }

struct Shares {
    Bytes capacity, lane;
    bool on_gpu = false;

    std::int64_t shards() const { return (capacity - lane).count / kShard.count; }
};

/// `lane`: empty: a quarter of the memory.
Shares shares_of_service(const std::string& lane) {
    const Result<Status> status = ask_status();
    if (!status) throw Failure{status.error()};
    Shares shares;
    shares.capacity = status.value().service.capacity;
    shares.on_gpu = status.value().service.device == "cuda";
    const auto wanted = lane.empty() ? std::optional(Bytes{shares.capacity.count / 4}) : parse_bytes(lane);
    if (!wanted || *wanted < kShard || *wanted > shares.capacity - kShard)
        throw UsageError{
            fmt::format("--lane must be from 1MiB to {}; got '{}'", format_bytes(shares.capacity - kShard), lane)};
    shares.lane = *wanted;
    return shares;
}

int print_config(const std::string& lane) {
    const Shares shares = shares_of_service(lane);
    const std::string prefix = std::filesystem::path(own_directory()).parent_path().string();
    const std::string node = os::this_machine().host;
    fmt::print("# The service has {} for jobs. {} are set aside as the lane; a shard is 1 MiB of the rest.\n",
               format_bytes(shares.capacity), format_bytes(shares.lane));
    fmt::print("\n# gres.conf\nNodeName={0} Name=gpu File={1}\nNodeName={0} Name=shard Count={2} File={1}\n", node,
               shares.on_gpu ? "/dev/nvidia0" : "/dev/null", shares.shards());
    fmt::print(
        "\n# slurm.conf: add Gres to the node's line\nGresTypes=gpu,shard\nSelectType=select/cons_tres\n"
        "NodeName={} Gres=gpu:1,shard:{}\nJobSubmitPlugins=lua\nEpilog={}/share/salus/slurm/epilog\n",
        node, shares.shards(), prefix);
    fmt::print("\n# plugstack.conf\noptional {0}/lib/salus/spank_salus.so salus={0}/bin/salus\n", prefix);
    fmt::print(
        "\n# once on each node\n"
        "gcc -shared -fPIC -o {0}/lib/salus/spank_salus.so {0}/share/salus/slurm/spank_salus.c\n"
        "systemctl enable --now salusd\n",
        prefix);
    return 0;
}

struct Profile {
    std::int64_t p_mib = 0, t_mib = 0;
};

/// By the name of the script or program: the most that any of its commands has needed.
std::map<std::string, Profile> profiles() {
    std::map<std::string, Profile> all;
    for (const history::Record& record : records_of_history()) {
        std::vector<std::string> words;
        for (const std::string_view word : split(record.last.command, ' ')) words.emplace_back(word);
        const history::Figures& figures = record.last.figures;
        if (words.empty() || figures.persistent == Bytes{}) continue;
        Profile& profile = all[name_of_command(words)];
        profile.p_mib = std::max(profile.p_mib, mebibytes_in(figures.persistent));
        profile.t_mib = std::max(profile.t_mib, mebibytes_in(figures.ephemeral));
    }
    return all;
}

std::string quoted_for_lua(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + "\"";
}

int print_profiles(const std::string& lane) {
    const Shares shares = shares_of_service(lane);
    fmt::print("-- salus_profiles.lua, for job_submit.lua\nreturn {{ lane_mib = {}, programs = {{\n",
               mebibytes_in(shares.lane));
    for (const auto& [name, profile] : profiles())
        fmt::print("  [{}] = {{ p_mib = {}, t_mib = {} }},\n", quoted_for_lua(name), profile.p_mib, profile.t_mib);
    fmt::print("}} }}\n");
    return 0;
}

}  // namespace

void add_slurm_command(CLI::App& program, Action& action) {
    CLI::App* slurm = program.add_subcommand("slurm", "Print what Slurm must know of this node's service");
    slurm->require_subcommand(1);
    auto lane = std::make_shared<std::string>();
    const auto add = [&](const char* name, const char* about, int (*print)(const std::string&)) {
        CLI::App* command = slurm->add_subcommand(name, about);
        command->add_option("--lane", *lane, "Memory set aside for what jobs need inside an iteration (default: a quarter)")
            ->type_name("SIZE");
        command->callback([lane, print, &action] { action = [lane, print] { return print(*lane); }; });
    };
    add("config", "Lines for gres.conf, slurm.conf and plugstack.conf", print_config);
    add("profiles", "What programs have needed, for job_submit.lua", print_profiles);
}

}  // namespace salus::cli
