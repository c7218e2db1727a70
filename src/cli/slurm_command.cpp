// salus slurm: what Slurm must know of this node's service, as text for its configuration (docs/cluster.md).
#include <array>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/service_link.h"
#include "cli/shares.h"
#include "os/machine.h"

namespace salus::cli {
namespace {

/// Slurm tells GPUs apart by their device files. Those of the host are only names.
std::string device_file(bool on_gpu, std::size_t place, unsigned number) {
    static constexpr std::array kOfHost = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random"};
    return on_gpu ? fmt::format("/dev/nvidia{}", number) : kOfHost[place % kOfHost.size()];
}

int print_config(const std::string& lane) {
    const Shares shares = shares_of_service(lane);
    const std::string prefix = std::filesystem::path(own_directory()).parent_path().string();
    const std::string node = os::this_machine().host;
    std::int64_t sum = 0;
    fmt::print("# The service has {} for jobs on each GPU. {} are set aside as the lane; a shard is 1 MiB of the rest.\n",
               format_bytes(shares.capacity), format_bytes(shares.lane));
    fmt::print("\n# gres.conf\n");
    for (std::size_t i = 0; i < shares.devices.size(); ++i)
        fmt::print("NodeName={} Name=gpu File={}\n", node, device_file(shares.on_gpu, i, shares.devices[i].number));
    for (std::size_t i = 0; i < shares.devices.size(); ++i) {
        const std::int64_t shards = shares.shards_of(shares.devices[i]);
        fmt::print("NodeName={} Name=shard Count={} File={}\n", node, shards,
                   device_file(shares.on_gpu, i, shares.devices[i].number));
        sum += shards;
    }
    fmt::print(
        "\n# slurm.conf: add Gres to the node's line\nGresTypes=gpu,shard\nSelectType=select/cons_tres\n"
        "NodeName={} Gres=gpu:{},shard:{}\nJobSubmitPlugins=lua\nEpilog={}/share/salus/slurm/epilog\n",
        node, shares.devices.size(), sum, prefix);
    fmt::print("\n# plugstack.conf\noptional {0}/lib/salus/spank_salus.so salus={0}/bin/salus\n", prefix);
    fmt::print(
        "\n# once on each node\n"
        "gcc -shared -fPIC -o {0}/lib/salus/spank_salus.so {0}/share/salus/slurm/spank_salus.c\n"
        "systemctl enable --now salusd\n",
        prefix);
    return 0;
}

}  // namespace

void add_slurm_command(CLI::App& program, Action& action) {
    CLI::App* slurm = program.add_subcommand("slurm", "Print what Slurm must know of this node's service");
    slurm->require_subcommand(1);
    auto lane = std::make_shared<std::string>();
    CLI::App* config = slurm->add_subcommand("config", "Lines for gres.conf, slurm.conf and plugstack.conf");
    add_lane_option(*config, *lane);
    config->callback([lane, &action] { action = [lane] { return print_config(*lane); }; });
}

}  // namespace salus::cli
