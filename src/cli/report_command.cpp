// salus report: what a job has cost, and what sharing has gained.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/report_view.h"
#include "cli/service_link.h"
#include "cli/trace_pieces.h"
#include "policies/table.h"
#include "sim/recorded_run.h"

namespace salus::cli {
namespace {

struct ReportArguments {
    std::string job;
    bool json = false;
};

int show_report(const ReportArguments& a) {
    const Result<Status> status = ask_status();
    if (!status) throw Failure{status.error()};
    // Each device has a trace of its own.
    const auto devices = static_cast<std::uint32_t>(devices_of(status.value().service).size());
    std::optional<sim::RecordedRun> run;
    std::uint32_t job = 0;
    for (std::uint32_t device = 0; device < devices; ++device) {
        auto read = sim::read_recorded_run(read_trace("", device), find_policy, fallback_policy());
        if (!read) throw Failure{read.error()};
        run = std::move(read).value();
        job = number_of_job(a.job, status.value(), *run);
        if (job != 0 && std::ranges::find(run->numbers, job) != run->numbers.end()) break;
    }
    if (job == 0) throw Failure{fmt::format("there is no job '{}'", a.job)};
    const JobReport report = report_of(job, status.value(), *run);
    fmt::print("{}", a.json ? json_text(report_json(report)) : format_report(report));
    return 0;
}

}  // namespace

void add_report_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<ReportArguments>();
    CLI::App* report = program.add_subcommand("report", "Show what a job has cost and gained");
    report->add_option("job", a->job, "Number or name of the job, which may have ended")->required();
    report->add_flag("--json", a->json, "Print JSON");
    report->callback([a, &action] { action = [a] { return show_report(*a); }; });
}

}  // namespace salus::cli
