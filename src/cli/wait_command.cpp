// salus wait: blocks until jobs have ended, and exits with the status of the last one.
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/service_link.h"
#include "cli/status_view.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/places.h"
#include "wire/framing.h"

namespace salus::cli {
namespace {

/// How long a job may take to reach the next service.
constexpr Duration kNextServicePatience = seconds(10);
constexpr Duration kNextServiceTries = milliseconds(250);

/// The service has promised to tell when the job ends.
struct AwaitedEnd {
    std::uint32_t job = 0;
    std::string name;
    os::Descriptor connection;
};

/// Nothing: the service is gone.
std::optional<Result<AwaitedEnd>> ask_for_end(const wire::JobReference& job, Result<os::Descriptor> connection) {
    if (!connection) return std::nullopt;
    wire::send(connection.value().get(), wire::WaitJob{job});
    const auto answer = read_answer(connection.value().get());
    if (!answer) return std::nullopt;
    if (!*answer) return Error{answer->error()};
    const JobStatus known = job_status_from(nlohmann::json::parse(answer->value(), nullptr, false));
    return AwaitedEnd{known.job, known.name, std::move(connection).value()};
}

/// A service that is there may end before it answers.
Result<AwaitedEnd> await_end(const wire::JobReference& job) {
    Result<os::Descriptor> connection = find_service_on_its_way().connection;
    if (!connection) throw Failure{connection.error()};
    auto awaited = ask_for_end(job, std::move(connection));
    for (const Instant until = os::now() + kNextServicePatience; !awaited && os::now() < until;) {
        os::sleep_for(kNextServiceTries);
        awaited = ask_for_end(job, find_service_on_its_way().connection);
    }
    if (!awaited) throw Failure{"the service does not answer"};
    return std::move(*awaited);
}

/// After a service was lost, its jobs come to the next one, under the same numbers.
AwaitedEnd await_end_again(const AwaitedEnd& lost) {
    for (const Instant until = os::now() + kNextServicePatience; os::now() < until; os::sleep_for(kNextServiceTries)) {
        auto again = ask_for_end({lost.job, {}}, os::find_service().connection);
        if (again && *again) return std::move(*again).value();
    }
    throw Failure{fmt::format("the service is gone; how {} ends is not known", job_text(lost.name, lost.job))};
}

JobStatus end_of(AwaitedEnd awaited) {
    for (;;) {
        const auto answer = read_answer(awaited.connection.get());
        if (answer && !*answer) throw Failure{answer->error()};
        if (answer) return job_status_from(nlohmann::json::parse(answer->value(), nullptr, false));
        awaited = await_end_again(awaited);
    }
}

int wait_for(const std::vector<std::string>& names) {
    std::vector<AwaitedEnd> all;
    for (const std::string& name : names) {
        const Result<wire::JobReference> job = job_called(name);
        Result<AwaitedEnd> awaited = job ? await_end(job.value()) : Error{job.error()};
        if (!awaited) throw UsageError{awaited.error()};
        all.push_back(std::move(awaited).value());
    }
    JobStatus last;
    for (AwaitedEnd& awaited : all) last = end_of(std::move(awaited));
    if (last.end && last.end->exit_status) return *last.end->exit_status;
    throw Failure{job_text(last.name, last.job) + " has ended, but nobody saw its exit status"};
}

}  // namespace

void add_wait_command(CLI::App& program, Action& action) {
    CLI::App* wait = program.add_subcommand("wait", "Wait until jobs have ended; exits with the status of the last one");
    auto jobs = std::make_shared<std::vector<std::string>>();
    wait->add_option("jobs", *jobs, "Numbers or names of the jobs")->required();
    wait->callback([jobs, &action] { action = [jobs] { return wait_for(*jobs); }; });
}

}  // namespace salus::cli
