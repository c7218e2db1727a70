#include "cli/real_run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/files.h"
#include "cli/job_environment.h"
#include "cli/service_link.h"
#include "cli/trace_pieces.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/program.h"
#include "os/socket.h"
#include "policies/table.h"
#include "sim/recorded_run.h"

namespace salus::cli {
namespace {

/// The stop signal that came; 0: none.
volatile std::sig_atomic_t stop_signal = 0;

/// While it exists, a signal that would end the program first ends the run and all processes that it started.
class StopSignals {
public:
    StopSignals() {
        stop_signal = 0;
        for (std::size_t i = 0; i < kSignals.size(); ++i) {
            ::sigaction(kSignals[i], nullptr, &before_[i]);
            if (before_[i].sa_handler == SIG_IGN) continue;  // as with nohup
            struct sigaction action {};
            action.sa_handler = [](int signal) { stop_signal = signal; };  // no SA_RESTART: waits end, too
            ::sigaction(kSignals[i], &action, nullptr);
        }
    }
    ~StopSignals() {
        for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
        if (stop_signal != 0) ::raise(stop_signal);
    }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

private:
    static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
    std::array<struct sigaction, kSignals.size()> before_{};
};

/// A directory for one run's sockets, traces and logs; gone afterwards.
class Workplace {
public:
    Workplace() {
        std::error_code error;
        const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
        std::string pattern = (parent / "salus-bench-XXXXXX").string();
        if (error) why_not_ = "no directory for the run, see TMPDIR: " + error.message();
        else if (::mkdtemp(pattern.data())) path_ = pattern;
        else why_not_ = fmt::format("no directory for the run in {}: {}", parent.string(), std::strerror(errno));
    }
    ~Workplace() {
        std::error_code error;
        if (!path_.empty()) std::filesystem::remove_all(path_, error);
    }
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    const std::string& path() const { return path_; }
    /// Why there is no directory; empty: there is one.
    const std::string& why_not() const { return why_not_; }

private:
    std::string path_;
    std::string why_not_;
};

/// Runs a program with its output in a file, in its own process group, so that end_group() also ends its children. -1 if it
/// cannot be run.
pid_t launch(std::vector<std::string> command, const std::vector<std::string>& settings, const std::string& output) {
    const os::Descriptor file = os::open_file(output, os::Open::kReplace);
    if (!file) return -1;
    os::Launch program{std::move(command), os::environment_with(settings, /*left_out=*/"SALUS_")};
    program.output = file.get();
    const Result<int> child = os::spawn(program);
    return child ? child.value() : -1;
}

void end_group(pid_t child) {
    ::kill(-child, SIGKILL);
    os::wait_for_end(child);
}

std::string first_line(const std::string& path) {
    const Result<std::string> text = os::read_file(path);
    return text ? std::string(trim(text.value().substr(0, text.value().find('\n')))) : "";
}

std::vector<std::string> job_command(const sim::SimulatedJob& job, std::uint64_t work) {
    return {own_directory() + "/salus-job",
            "--persistent",
            std::to_string(std::max<std::int64_t>(job.persistent.count, 1)),
            "--ephemeral",
            std::to_string(job.ephemeral.count),
            "--work",
            std::to_string(work),
            "--touch",
            "pages"};
}

/// The first line of a program's output, as a number.
Result<double> number_from(std::vector<std::string> command, const std::vector<std::string>& more,
                           const std::string& output) {
    command.insert(command.end(), more.begin(), more.end());
    const pid_t child = launch(command, {}, output);
    const auto end = child > 0 ? os::wait_for_end(child) : std::nullopt;
    if (child > 0 && !end) end_group(child);
    if (!end || !end->well() || stop_signal != 0) {
        return Error{fmt::format("{} failed: {}", command[0], first_line(output))};
    }
    const auto number = parse_number(first_line(output));
    if (!number) return Error{fmt::format("{} printed no number", command[0])};
    return *number;
}

/// The service and the jobs of one run; its destructor ends those that are left.
class Ensemble {
public:
    ~Ensemble() {
        for (const auto& [child, job] : running_) end_group(child);
        if (service_ > 0) stop_service();
    }
    Ensemble() = default;
    Ensemble(const Ensemble&) = delete;
    Ensemble& operator=(const Ensemble&) = delete;

    Result<bool> start_service(const Workplace& place, const Policy& policy, const RealRunOptions& options) {
        socket_ = place.path() + "/run/socket";
        std::vector<std::string> command = {own_directory() + "/salusd",
                                            "--config",
                                            "/dev/null",
                                            "--socket",
                                            socket_,
                                            "--state",
                                            place.path() + "/state",
                                            "--policy",
                                            std::string(policy.info.name),
                                            "--capacity",
                                            std::to_string(options.capacity.count),
                                            "--overlap",
                                            options.overlap ? "measure" : "off",
                                            "--lanes",
                                            std::to_string(options.lanes),
                                            "--paging",
                                            options.paging ? "on" : "off",
                                            "--device",
                                            options.device,
                                            "--trace-limit",
                                            "4GiB"};
        if (options.min_turn) {
            command.insert(command.end(), {"--min-turn-ms", fmt::format("{}", options.min_turn->seconds() * 1e3)});
        }
        service_ = launch(command, {}, place.path() + "/salusd.log");
        for (int i = 0; i < 2000 && service_ > 0 && stop_signal == 0; ++i) {  // starting on a GPU takes long
            if (os::connect_to(socket_)) return learn_place();
            os::sleep_for(milliseconds(10));
            if (os::reap(service_)) service_ = -1;
        }
        return Error{"the service did not start: " + first_line(place.path() + "/salusd.log")};
    }

    /// What jobs must know about the device; otherwise `salus run` tells them.
    bool learn_place() {
        const Result<Status> status = ask_status(socket_);
        if (!status) return true;
        const ServiceStatus& service = status.value().service;
        place_ = {service.device, service.gpu, service.mps};
        return true;
    }

    bool start_job(const Workplace& place, const sim::SimulatedJob& job, std::size_t index, std::uint64_t work) {
        const std::string output = fmt::format("{}/job-{}", place.path(), index);
        JobIdentity identity{socket_,       job.name,      static_cast<std::uint32_t>(index + 1), job.priority, job.weight,
                             job.occupancy, job.iterations};
        if (!job.command.empty()) identity.iteration_time = job.iteration_time;
        identity.place = place_;
        std::vector<std::string> environment;
        for (const auto& [name, value] : job_environment(identity)) environment.push_back(name + "=" + value);
        const std::vector<std::string> command =
            job.command.empty() ? stand_in(job, work) : std::vector<std::string>{"sh", "-c", job.command};
        const pid_t child = launch(command, environment, output);
        if (child > 0) running_[child] = index;
        return child > 0;
    }

    static std::vector<std::string> stand_in(const sim::SimulatedJob& job, std::uint64_t work) {
        std::vector<std::string> command = job_command(job, work);
        const std::vector<std::string> more = {"--name",
                                               job.name,
                                               "--iterations",
                                               std::to_string(job.iterations),
                                               "--iterations-known",
                                               "--think-ms",
                                               fmt::format("{}", job.think.seconds() * 1e3),
                                               "--startup-ms",
                                               fmt::format("{}", job.startup.seconds() * 1e3),
                                               "--occupancy",
                                               fmt::format("{}", job.occupancy),
                                               "--priority",
                                               std::to_string(job.priority),
                                               "--weight",
                                               fmt::format("{}", job.weight)};
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }

    /// The output of a job that failed; empty if none did.
    std::string reap(const Workplace& place) {
        for (auto job = running_.begin(); job != running_.end();) {
            const auto end = os::reap(job->first);
            if (!end) {
                ++job;
                continue;
            }
            const std::size_t index = job->second;
            job = running_.erase(job);
            ended_[index] = os::now();
            if (!end->well())
                return fmt::format("job {} failed: {}", index + 1,
                                   first_line(fmt::format("{}/job-{}", place.path(), index)));
        }
        return "";
    }

    bool any_running() const { return !running_.empty(); }
    Instant ended(std::size_t index) const { return ended_.at(index); }

    std::uint64_t iterations_of_running() const {
        const Result<Status> status = ask_status(socket_);
        if (!status) return 0;
        std::uint64_t sum = 0;
        for (const JobStatus& job : status.value().jobs) sum += job.activity ? job.activity->iterations : 0;
        return sum;
    }

    void stop_service() {
        ::kill(service_, SIGTERM);
        while (!os::wait_for_end(service_) && errno == EINTR) {}
        service_ = -1;
    }

    std::size_t running() const { return running_.size(); }
    std::vector<std::size_t> indices() const {
        std::vector<std::size_t> all;
        for (const auto& [child, index] : running_) all.push_back(index);
        return all;
    }

private:
    std::string socket_;
    Place place_;
    pid_t service_ = -1;
    std::map<pid_t, std::size_t> running_;
    std::map<std::size_t, Instant> ended_;
};

}  // namespace

Result<std::vector<Calibration>> calibrate(const std::vector<sim::SimulatedJob>& jobs,
                                           const std::function<void(double)>& progress) {
    const StopSignals stop_signals;
    const Workplace place;
    if (!place.why_not().empty()) return Error{place.why_not()};
    const std::string output = place.path() + "/output";
    const Result<double> units_per_ms = number_from({own_directory() + "/salus-job"}, {"--calibrate"}, output);
    if (!units_per_ms) return Error{units_per_ms.error()};
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Calibration> known;
    std::vector<Calibration> all;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        progress(static_cast<double>(i) / static_cast<double>(jobs.size()));
        const sim::SimulatedJob& job = jobs[i];
        if (!job.command.empty()) {  // its time cannot be set
            all.push_back({0, job.iteration_time});
            continue;
        }
        const auto key = std::tuple(job.persistent.count, job.ephemeral.count, job.iteration_time.ns);
        if (!known.contains(key)) {
            // First the time for memory; arithmetic fills the rest.
            const Result<double> memory_ms = number_from(job_command(job, 0), {"--measure", "15"}, output);
            if (!memory_ms) return Error{memory_ms.error()};
            const double rest_ms = std::max(job.iteration_time.seconds() * 1e3 - memory_ms.value(), 0.0);
            Calibration calibration;
            calibration.work = static_cast<std::uint64_t>(rest_ms * units_per_ms.value());
            const Result<double> whole_ms = number_from(job_command(job, calibration.work), {"--measure", "15"}, output);
            if (!whole_ms) return Error{whole_ms.error()};
            calibration.iteration_time = seconds_of(whole_ms.value() / 1e3);
            known[key] = calibration;
        }
        all.push_back(known[key]);
    }
    return all;
}

Result<RealRun> run_for_real(const std::vector<sim::SimulatedJob>& jobs, const std::vector<Calibration>& calibrations,
                             const Policy& policy, const RealRunOptions& options,
                             const std::function<void(double)>& progress) {
    const StopSignals stop_signals;  // first, so that it is destroyed last
    const Workplace place;
    if (!place.why_not().empty()) return Error{place.why_not()};
    Ensemble ensemble;
    const Result<bool> started = ensemble.start_service(place, policy, options);
    if (!started) return Error{started.error()};

    std::vector<std::size_t> order(jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return jobs[a].arrival < jobs[b].arrival; });
    double whole = 0;
    for (const sim::SimulatedJob& job : jobs) whole += static_cast<double>(job.iterations);

    std::vector<Instant> arrivals(jobs.size());
    const Instant start = os::now();
    std::size_t next = 0;
    Instant shown{};
    while (next < order.size() || ensemble.any_running()) {
        if (stop_signal != 0) return Error{"stopped by a signal"};
        while (next < order.size() && os::now() - start >= jobs[order[next]].arrival) {
            const std::size_t index = order[next++];
            arrivals[index] = os::now();
            if (!ensemble.start_job(place, jobs[index], index, calibrations[index].work))
                return Error{"a job cannot be started"};
        }
        const std::string failure = ensemble.reap(place);
        if (!failure.empty()) return Error{failure};
        if (os::now() - shown >= milliseconds(250)) {
            shown = os::now();
            double done = static_cast<double>(ensemble.iterations_of_running());
            const std::vector<std::size_t> present = ensemble.indices();
            for (std::size_t i = 0; i < next; ++i) {
                if (std::find(present.begin(), present.end(), order[i]) == present.end())
                    done += static_cast<double>(jobs[order[i]].iterations);
            }
            progress(done / whole);
        }
        os::sleep_for(milliseconds(2));
    }
    ensemble.stop_service();

    const std::string trace = read_whole_trace(place.path() + "/state/trace");
    Result<sim::RecordedRun> recorded = sim::read_recorded_run(trace, find_policy, fallback_policy());
    if (!recorded) return Error{"the trace of the run cannot be read: " + recorded.error()};
    RealRun run;
    run.replay_difference = recorded.value().replay.difference;
    run.result = recorded.value().result;
    run.result.jobs.assign(jobs.size(), {});
    std::vector<std::size_t> position(recorded.value().jobs.size(), 0);
    for (std::size_t i = 0; i < recorded.value().jobs.size(); ++i) {
        const std::size_t job = recorded.value().numbers[i] - 1;
        if (job >= jobs.size()) return Error{"the trace of the run names a job that was not started"};
        position[i] = job;
        run.result.jobs[job] = recorded.value().result.jobs[i];
        run.result.jobs[job].arrival = arrivals[job];
        run.result.jobs[job].iterations = jobs[job].iterations;
        if (jobs[job].command.empty()) continue;
        // A command that exits with 0 has done its work, however its process left the service.
        run.result.jobs[job].end = ensemble.ended(job);
        run.result.jobs[job].outcome = sim::Outcome::kDone;
    }
    for (sim::Segment segment : recorded.value().segments) {
        segment.client = ClientId{static_cast<std::uint32_t>(position[index_of(segment.client)])};
        segment.start = {(segment.start - start).ns};
        segment.end = {(segment.end - start).ns};
        run.segments.push_back(segment);
    }
    run.answering = recorded.value().answering.since(start);
    for (sim::Answering::Request& request : run.answering.requests) request.job = position[request.job];
    return run;
}

}  // namespace salus::cli
