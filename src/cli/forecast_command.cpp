// salus forecast: when the jobs of the running service may end, under each policy.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

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
    const sim::Forecast forecast = sim::forecast(status.value(), policies);
    fmt::print("{}", a.json ? json_text(forecast_json(forecast, at_unix_s)) : format_forecast(forecast));
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
