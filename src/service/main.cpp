#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/characters.h"
#include "base/version.h"
#include "os/places.h"
#include "service/log.h"
#include "service/server.h"

namespace {

int fail(int status, const std::string& why) {
    // A configuration may hold anything.
    std::fprintf(stderr, "%ssalusd: %s\n", salus::service::journal_prefix(salus::LogLevel::kError).c_str(),
                 salus::printable(why).c_str());
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App program("The Salus service: lets jobs share a device. Usually started by `salus run` or `salus start`.",
                     "salusd");
    program.set_version_flag("--version", std::string("salusd ") + salus::kSalusVersion);
    salus::service::OptionsParser parser(program);
    bool only_check = false;
    program.add_flag("--check", only_check, "only check the options and the configuration file")->configurable(false);
    try {
        program.parse(argc, argv);
        parser.finish();
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
        return fail(2, parser.explain(error));
    }
    const std::vector<std::string> arguments = parser.arguments();
    auto found = salus::service::find_options(arguments);
    if (!found) return fail(2, found.error());
    if (only_check) return 0;
    if (found.value().state == salus::os::default_state_directory()) {
        const auto claimed = salus::os::claim_state_directory();
        if (!claimed) return fail(1, claimed.error());
        found = salus::service::find_options(arguments);  // it may be another machine's by now
        if (!found) return fail(2, found.error());
    }
    const salus::service::Options& options = found.value();
    salus::service::bound_log(options.state + "/salusd.log", salus::service::kLogMax);
    salus::service::set_log_level(options.log_level);
    // Do not keep a directory of the user busy. The paths in the options are absolute by now.
    if (::chdir("/") != 0) std::perror("salusd: /");
    rlimit files{};  // each client takes three
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
    salus::service::Server::block_signals();
    auto server = salus::service::Server::open(options);
    // An option that this device cannot meet is a wrong one.
    if (!server) return fail(server.error().starts_with("--") ? 2 : 1, server.error());
    server.value()->on_reload([&] { return salus::service::find_options(arguments); });
    const auto& devices = server.value()->devices();
    double capacity_gib = 0;
    for (const auto& device : devices) capacity_gib += device->engine().capacity().mib() / 1024.0;
    salus::service::log(salus::LogLevel::kInfo, "listening at {}, policy {}, capacity {:.1f} GiB{}", options.socket,
                        options.policy, capacity_gib,
                        devices.size() > 1 ? fmt::format(" on {} devices", devices.size()) : "");
    server.value()->run();
    salus::service::log(salus::LogLevel::kInfo, "stopped");
    return 0;
}
