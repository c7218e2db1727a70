// The commands that talk to a running service: ps, top, policy, pause, suspend, resume, page-out, kill, set, logs, status,
// start, reload, stop.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/job_logs.h"
#include "cli/json_text.h"
#include "cli/memory_answer.h"
#include "cli/service_link.h"
#include "cli/status_view.h"
#include "cli/top_command.h"
#include "os/clock.h"
#include "os/places.h"
#include "os/socket.h"
#include "os/trust.h"
#include "os/user.h"
#include "status/status.h"
#include "wire/assignments.h"

namespace salus::cli {
namespace {

using nlohmann::json;

/// How long a service may take to end; it may have to end MPS first.
constexpr Duration kStopPatience = seconds(20);

/// Asks the service. A refusal is one line, and exit status 1.
std::string ask(const wire::Command& command) {
    Result<std::string> answer = ask_service(command);
    if (!answer) throw Failure{answer.error()};
    return std::move(answer).value();
}

wire::JobReference job_or_fail(const std::string& text) {
    const Result<wire::JobReference> job = job_called(text);
    if (!job) throw Failure{job.error()};
    return job.value();
}

/// Asks, and says what that did to the job.
int tell(const wire::Command& command, const std::string& done) {
    const JobStatus job = job_status_from(json::parse(ask(command), nullptr, false));
    fmt::print("{} {}\n", job_text(job.name, job.job), done);
    return 0;
}

Result<Status> status_with_users() {
    Result<Status> status = ask_status();
    if (!status) return status;
    for (auto* rows : {&status.value().jobs, &status.value().ended}) {
        for (JobStatus& row : *rows) {
            if (row.user != kNoUser) row.user_name = os::name_of_user(static_cast<std::uint32_t>(row.user));
        }
    }
    return status;
}

Status status_or_fail() {
    Result<Status> status = status_with_users();
    if (!status) throw Failure{status.error()};
    return std::move(status).value();
}

TopAnswer serve_top(const std::optional<Pressed>& pressed) {
    std::string said;
    if (pressed && pressed->command) {
        const Result<std::string> answer = ask_service(*pressed->command);
        said = answer ? pressed->done : answer.error();
    }
    return {status_with_users(), said};
}

void set_policy(const std::string& name) {
    find_policy_or_complain(name);
    const json answer = json::parse(ask(wire::SetPolicy{wire::Text<32>(name)}), nullptr, false);
    const std::string note = answer.is_object() ? answer.value("note", "") : "";
    fmt::print("the policy is {} now\n", name);
    if (!note.empty()) std::fprintf(stderr, "salus: %s\n", printable(note).c_str());
}

// -------------------------------------------------------------------------------------------------------------- kill

/// The numbers of the caller's own jobs.
std::vector<wire::JobReference> own_jobs() {
    std::vector<wire::JobReference> own;
    for (const JobStatus& job : status_or_fail().jobs) {
        const bool known = !own.empty() && own.back().number == job.job;  // the clients of a job follow each other
        if (job.user == UserId{::getuid()} && !known) own.push_back({job.job, {}});
    }
    return own;
}

std::vector<wire::JobReference> jobs_called(const std::vector<std::string>& names) {
    std::vector<wire::JobReference> jobs;
    for (const std::string& name : names) jobs.push_back(job_or_fail(name));
    return jobs;
}

/// Does it for those for which it works; each other one is a line.
int for_each(const std::vector<wire::JobReference>& jobs, const std::function<void(const wire::JobReference&)>& act) {
    if (jobs.empty()) fmt::print("you have no jobs\n");
    int status = 0;
    for (const wire::JobReference& job : jobs) {
        try {
            act(job);
        } catch (const Failure& failure) {
            std::fprintf(stderr, "salus: %s\n", printable(failure.message).c_str());
            status = 1;
        }
    }
    return status;
}

int kill(const std::vector<std::string>& names, bool all, bool at_once) {
    if (names.empty() != all) throw UsageError{"kill needs either jobs or --all"};
    return for_each(all ? own_jobs() : jobs_called(names), [&](const wire::JobReference& job) {
        tell(wire::KillJob{job, at_once ? 1u : 0u}, at_once ? "is killed" : "is told to end");
    });
}

// ------------------------------------------------------------------------------------------------- suspend, page-out

/// How long page-out waits until memory is out.
constexpr Duration kOutPatience = seconds(60);

void suspend(const wire::JobReference& job) {
    const MemoryAnswer answer = memory_answer_from(ask(wire::SuspendJob{job}));
    fmt::print("{} {}\n", job_text(answer.name, answer.job), suspended_text(answer));
}

/// Of all processes of the job together.
struct IdleJob {
    MemoryAnswer answer;
    Bytes out;           ///< of its memory
    bool moves = false;  ///< some of it is on its way
};

IdleJob look_at_idle(const MemoryAnswer& answer) {
    IdleJob found{answer, {}, false};
    for (const JobStatus& row : status_or_fail().jobs) {
        if (row.job != answer.job || !row.activity) continue;
        found.out += row.activity->paged_out;
        found.moves = found.moves || row.state == JobState::kPaging;
    }
    return found;
}

void page_idle(const wire::JobReference& job) {
    const MemoryAnswer answer = memory_answer_from(ask(wire::PageIdleJob{job}));
    IdleJob found = look_at_idle(answer);
    // Its helper gives back a turn first, if it has kept one.
    const Instant asked = os::now();
    const auto is_due = [&] { return answer.clients > 0 && answer.goes > Bytes{} && found.out == Bytes{}; };
    while ((found.moves && os::now() - asked < kOutPatience) || (is_due() && os::now() - asked < seconds(1))) {
        os::sleep_for(milliseconds(10));
        found = look_at_idle(answer);
    }
    fmt::print("{} {}\n", job_text(answer.name, answer.job), idle_text(answer, found.out, found.moves));
}

// -------------------------------------------------------------------------------------------------------------- logs

/// As it is, byte for byte: progress bars overwrite their lines, and a last line may have no end yet.
void copy_new(std::FILE* file) {
    std::array<char, 65536> block;
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file))
        std::fwrite(block.data(), 1, got, stdout);
    std::fflush(stdout);
    std::clearerr(file);  // clears end-of-file: there may be more later
}

int show_log(const std::string& which, std::optional<std::int64_t> lines, bool follow) {
    if (lines && *lines < 0) throw UsageError{fmt::format("-n must be 0 or more; got '{}'", *lines)};
    const Result<std::string> path = find_log(log_directory(), which);
    if (!path) throw Failure{path.error()};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(trusted(path.value()).c_str(), "rb"), std::fclose);
    if (!file) throw Failure{path.value() + " cannot be read"};
    if (lines) skip_to_last_lines(file.get(), static_cast<std::uint64_t>(*lines));
    for (;;) {
        copy_new(file.get());
        if (!follow) return 0;
        os::sleep_for(milliseconds(200));
        const Result<Status> status = ask_status();
        const auto writes_it = [&](const JobStatus& job) { return job.log == path.value(); };
        follow = status && std::ranges::any_of(status.value().jobs, writes_it);  // otherwise copy the last output and end
    }
}

// -------------------------------------------------------------------------------------------------------- start, stop

int start(const std::vector<std::string>& options) {
    const os::Service found = find_service_on_its_way();
    if (found.connection) throw Failure{"a service already runs at " + found.at};
    if (found.whose == os::Whose::kMachines)
        throw Failure{found.connection.error() + "; it is the machine's, and systemctl start salusd starts it"};
    const auto failure = start_service(found.socket, options);
    if (failure && failure->options_refused) throw UsageError{failure->why};
    if (failure) throw Failure{failure->why};
    fmt::print("the service listens at {}\n", found.socket);
    return 0;
}

int stop(bool force) {
    const int pid = status_or_fail().service.pid;
    ask(wire::StopService{force ? 1u : 0u});
    for (const Instant until = os::now() + kStopPatience; os::now() < until; os::sleep_for(milliseconds(10))) {
        const Result<Status> status = ask_status();
        if (status && status.value().service.pid == pid) continue;  // else it is gone; jobs may have started the next one
        fmt::print("the service has stopped\n");
        return 0;
    }
    throw Failure{"the service still answers, 20 s after it was told to stop"};
}

}  // namespace

void add_control_commands(CLI::App& program, Action& action) {
    const auto add = [&](const char* name, const char* about) { return program.add_subcommand(name, about); };
    struct Values {
        bool json = false;
        bool flag = false;
        bool all = false;
        double interval_s = 1;
        std::optional<std::int64_t> lines;
        std::string text;
        std::vector<std::string> words;
    };
    const auto on = [&action](CLI::App* command, auto body) { command->callback([&action, body] { action = body; }); };

    auto v = std::make_shared<Values>();
    CLI::App* ps = add("ps", "List jobs");
    ps->add_flag("-a,--all", v->all, "Also jobs that have ended lately: the last 50, since the service started");
    ps->add_flag("--json", v->json, "Print JSON");
    on(ps, [v] {
        const Status answer = status_or_fail();
        PsOptions shown{.ended_before_unix_s = {}, .viewer = UserId{::getuid()}};
        if (v->all) shown.ended_before_unix_s = static_cast<std::int64_t>(os::unix_time_s());
        fmt::print("{}", v->json ? json_text(ps_json(answer, v->all)) : format_ps(answer, shown));
        return 0;
    });

    CLI::App* top = add("top", "Watch jobs, full screen");
    top->add_option("--interval", v->interval_s, "Seconds between updates")->capture_default_str();
    on(top, [v] {
        if (!(v->interval_s >= 0.1 && v->interval_s <= 60)) throw UsageError{"--interval must be from 0.1 to 60 seconds"};
        return run_top(serve_top, v->interval_s);
    });

    CLI::App* status = add("status", "Show the state of the service");
    status->add_flag("--json", v->json, "Print JSON");
    on(status, [v] {
        const Status answer = status_or_fail();
        fmt::print("{}", v->json ? json_text(to_json(answer)) : format_status(answer));
        return 0;
    });

    CLI::App* policy = add("policy", "Show or change the policy");
    policy->add_option("name", v->text, "fifo, srtf, las, fair, rr, priority or pack");
    on(policy, [v] {
        if (v->text.empty()) fmt::print("{}\n", printable(status_or_fail().service.policy));
        else set_policy(v->text);
        return 0;
    });

    const auto of_a_job = [&](const char* name, const char* about) {
        CLI::App* command = add(name, about);
        command->add_option("job", v->text, "Number or name of the job")->required();
        return command;
    };
    CLI::App* pause = of_a_job("pause", "Pause a job after its current iteration");
    on(pause, [v] { return tell(wire::PauseJob{job_or_fail(v->text)}, "pauses after its current iteration"); });
    const auto of_jobs = [&](const char* name, const char* about) {
        CLI::App* command = add(name, about);
        command->add_option("jobs", v->words, "Numbers or names of the jobs")->required();
        return command;
    };
    CLI::App* off = of_jobs("suspend", "Pause jobs, and move their memory from the device to the host");
    on(off, [v] { return for_each(jobs_called(v->words), suspend); });
    CLI::App* resume = of_jobs("resume", "Resume jobs that are paused or suspended");
    on(resume, [v] {
        return for_each(jobs_called(v->words),
                        [](const wire::JobReference& job) { tell(wire::ResumeJob{job}, "is resumed"); });
    });
    CLI::App* page_out = add("page-out", "Move memory of idle jobs from the device to the host");
    page_out->add_option("jobs", v->words, "Numbers or names of the jobs; without any, all of yours");
    page_out->add_flag("--idle", v->flag, "Those that idle; they come back by themselves")->required();
    on(page_out, [v] { return for_each(v->words.empty() ? own_jobs() : jobs_called(v->words), page_idle); });
    CLI::App* end_jobs = add("kill", "End jobs");
    end_jobs->add_option("jobs", v->words, "Numbers or names of the jobs");
    end_jobs->add_flag("--all", v->all, "End all of your jobs");
    end_jobs->add_flag("--now", v->flag, "Send SIGKILL instead of SIGTERM");
    on(end_jobs, [v] { return kill(v->words, v->all, v->flag); });
    CLI::App* set = of_a_job("set", "Change a job's priority, weight, iterations or class");
    set->add_option("assignments", v->words, "priority=N, weight=X, iterations=N, class=batch|interactive")->required();
    on(set, [v] {
        const auto wanted = wire::parse_assignments({v->words.begin(), v->words.end()});
        if (!wanted) throw UsageError{wanted.error()};
        return tell(wire::set_job(job_or_fail(v->text), wanted.value()),
                    fmt::format("has {} now", fmt::join(v->words, ", ")));
    });

    CLI::App* logs = of_a_job("logs", "Show the output of a job that was started with --detach");
    logs->add_flag("-f,--follow", v->flag, "Follow the output until the job ends");
    logs->add_option("-n,--lines", v->lines, "Begin with the last N lines")->type_name("N");
    on(logs, [v] { return show_log(v->text, v->lines, v->flag); });

    CLI::App* begin = add("start", "Start a service");
    begin->add_option("options", v->words, "Options of salusd, after --");
    on(begin, [v] { return start(v->words); });
    CLI::App* reload = add("reload", "Make the service read its configuration again");
    on(reload, [] {
        const json answer = json::parse(ask(wire::ReloadService{}), nullptr, false);
        fmt::print("{}\n", printable(answer.is_object() ? answer.value("note", "") : ""));
        return 0;
    });
    CLI::App* end = add("stop", "Stop the service; refuses while jobs are attached");
    end->add_flag("--force", v->flag, "Stop even if jobs are attached; they wait for the next service");
    on(end, [v] { return stop(v->flag); });
}

}  // namespace salus::cli
