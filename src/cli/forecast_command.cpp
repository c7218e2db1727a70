// salus forecast: when the jobs of the running service may end, under each policy.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/forecast_view.h"
#include "cli/json_text.h"
#include "cli/service_link.h"
#include "os/clock.h"
#include "sim/forecast.h"

namespace salus::cli {
namespace {

struct ForecastArguments {
    std::string policies = "all";
    bool json = false;
};

int show_forecast(const ForecastArguments& a) {
    const std::vector<const Policy*> policies = parse_policies(a.policies);
    const Result<Status> status = ask_status();
    if (!status) throw Failure{status.error()};
    const auto at_unix_s = static_cast<std::int64_t>(os::unix_time_s());
    const std::vector<DeviceStatus>& devices = status.value().service.devices;
    nlohmann::json documents = nlohmann::json::array();
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const Status of_device = devices.size() > 1 ? status_of_device(status.value(), i) : status.value();
        const sim::Forecast forecast = sim::forecast(of_device, policies);
        documents.push_back(forecast_json(forecast, at_unix_s));
        if (a.json) continue;
        if (devices.size() > 1)
            fmt::print("{}gpu {} {}\n", i > 0 ? "\n" : "", devices[i].number, printable(devices[i].label()));
        fmt::print("{}", format_forecast(forecast));
    }
    if (a.json)
        fmt::print("{}", json_text(documents.size() > 1 ? nlohmann::json{{"devices", documents}} : documents.front()));
    return 0;
}

}  // namespace

void add_forecast_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<ForecastArguments>();
    CLI::App* forecast = program.add_subcommand("forecast", "Predict when the jobs end, under each policy");
    forecast->add_option("--policy", a->policies, "Policies, separated by commas, or 'all'")
        ->type_name("NAMES")
        ->capture_default_str();
    forecast->add_flag("--json", a->json, "Print JSON");
    forecast->callback([a, &action] { action = [a] { return show_forecast(*a); }; });
}

}  // namespace salus::cli
