// salus env: prints the environment in which any process joins the service by itself, with no `salus run` around it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/job_environment.h"
#include "cli/service_link.h"
#include "cli/shim_preload.h"
#include "os/places.h"

namespace salus::cli {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

/// The entry first, and once: the environment may be that of a job already.
std::string first_in(const char* list, const std::string& entry) {
    std::string result = entry;
    for (const std::string_view other : split(list ? list : "", ':')) {
        if (!other.empty() && other != entry) result += ":" + std::string(other);
    }
    return result;
}

Variables joining_environment() {
    const os::Service service = find_service_on_its_way();
    if (!service.connection) throw Failure{service.connection.error()};
    const Result<Status> status = ask_status(service.at);
    if (!status) throw Failure{status.error()};
    const Result<Adaptor> adaptor = find_adaptor();
    if (!adaptor) throw Failure{adaptor.error()};
    Variables variables = {{"SALUS_SOCKET", service.socket},
                           {"PYTHONPATH", first_in(std::getenv("PYTHONPATH"), adaptor.value().inject)}};
    if (status.value().service.device != "cuda") return variables;
    const Result<std::string> preload = preload_with_shim();
    if (!preload) throw Failure{preload.error()};
    variables.emplace_back("LD_PRELOAD", preload.value());
    for (const auto& [name, value] : framework_settings()) variables.emplace_back(name, value);
    return variables;
}

int print(const Variables& variables, bool as_shell, bool as_json) {
    if (as_json) {
        nlohmann::ordered_json document = nlohmann::ordered_json::object();
        for (const auto& [name, value] : variables) document[name] = value;
        fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return 0;
    }
    for (const auto& [name, value] : variables) {
        if (as_shell) fmt::print("export {}={}\n", name, quoted(value));
        else fmt::print("{}={}\n", name, value);
    }
    return 0;
}

}  // namespace

void add_env_command(CLI::App& program, Action& action) {
    CLI::App* env =
        program.add_subcommand("env", "Print the variables with which a process joins by itself, without salus run");
    struct Arguments {
        bool shell = false, json = false;
    };
    auto a = std::make_shared<Arguments>();
    CLI::Option* shell = env->add_flag("--shell", a->shell, "As commands for a shell: eval \"$(salus env --shell)\"");
    env->add_flag("--json", a->json, "As JSON")->excludes(shell);
    env->callback([a, &action] { action = [a] { return print(joining_environment(), a->shell, a->json); }; });
}

}  // namespace salus::cli
