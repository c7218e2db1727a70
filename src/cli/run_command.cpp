// salus run: starts a job that shares the device, forwards signals to it, and exits with its status.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/command.h"
#include "base/python_command.h"
#include "base/text.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/job_environment.h"
#include "cli/job_logs.h"
#include "cli/runnable.h"
#include "cli/service_link.h"
#include "cli/shim_preload.h"
#include "cli/status_view.h"
#include "cli/untold_runs.h"
#include "device/visible_gpus.h"
#include "history/store.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/patience.h"
#include "os/places.h"
#include "os/poll.h"
#include "os/process.h"
#include "os/program.h"
#include "os/socket.h"
#include "os/terminal.h"
#include "wire/announcing.h"
#include "wire/assignments.h"
#include "wire/pass_on.h"

namespace salus::cli {
namespace {

struct RunArguments {
    std::string name;
    int priority = 0;
    double weight = 1;
    std::optional<std::int64_t> iterations;
    std::string memory_hint;
    std::string memory;
    std::string shim = "on";
    std::string client_class;
    std::string gpu;
    bool detach = false;
    bool require = false;
    std::vector<std::string> command;
};

/// Time before a service that hung up is tried again.
constexpr Duration kTryAgain = milliseconds(250);
/// A job that has waited this long for a service says so.
constexpr Duration kTellAfter = seconds(2);
/// How long the service may take to record the end of the job.
constexpr Duration kEndPatience = seconds(1);
/// How long a job that is stopped may take to give up its memory: Slurm sends SIGSTOP 2 s after SIGTSTP.
constexpr Duration kOffPatience = milliseconds(1900);
constexpr Duration kLookWhetherOff = milliseconds(10);
/// How long a job in the background may take to tell the service that it is there.
constexpr Duration kAnnouncePatience = seconds(5);
/// How often a user's own service is started again, and the delay before each try.
constexpr int kTries = 5;
constexpr Duration kComeBackAfter = milliseconds(500);
/// The exit status of a job that was to share and cannot. 126 and 127 are those of the shell.
constexpr int kCannotShare = 125;
constexpr std::int64_t kIterationsMax = 1'000'000'000'000'000;
constexpr Bytes kHintMax = gibibytes(std::int64_t{1} << 20);

/// The shell's exit statuses: 127 not found, 126 not executable.
[[noreturn]] void become(const std::vector<std::string>& command) {
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const int why = errno;
    std::fprintf(stderr, "salus: %s: %s\n", arguments[0], std::strerror(why));
    ::_exit(why == ENOENT ? 127 : 126);
}

class Runner {
public:
    explicit Runner(const RunArguments& arguments) : arguments_(arguments) {}

    int run() {
        // Otherwise only the log of a job in the background would tell.
        if (const auto failure = why_not_runnable(arguments_.command.front())) throw *failure;
        announce();
        if (connection_) tell_untold(whose_, socket_);
        look_at_python();
        find_shim();
        check_that_it_shares();
        tell_what_is_missing();
        if (arguments_.detach) {
            if (!go_to_background()) return 0;
        }
        wait_for_room();
        tell_unshared();
        start();
        return supervise();
    }

private:
    /// Before the command starts. Without a service the command starts anyway unless sharing is required, and the user is
    /// told. It retries first, because a service that is restarting hangs up on new connections.
    void announce() {
        const Instant begin = os::now();
        Instant tell_at = begin + kTellAfter;
        for (;;) {
            const std::string why = try_to_announce(/*may_start=*/true);
            if (why.empty()) return;
            if (is_final_ && arguments_.require) throw cannot_share(why);
            if (is_final_) return complain(why + "; the job starts without sharing");
            const bool waits_for_others = whose_ != os::Whose::kOwn && may_come_;
            const Duration patience = waits_for_others ? os::start_wait() : kComeBackAfter * kTries;
            if (os::now() >= begin + patience) {
                if (arguments_.require) throw cannot_share(why);
                return complain(why + "; the job starts without sharing");
            }
            if (waits_for_others && os::now() >= tell_at) {
                say(fmt::format("{}; the job waits for it for up to {:.0f} s, then it {}", why, patience.seconds(),
                                arguments_.require ? "fails" : "starts without sharing"));
                tell_at = kNever;
            }
            os::sleep_for(kTryAgain);
        }
    }

    static Failure cannot_share(const std::string& why) {
        return Failure{why + "; the job cannot share and is not started", kCannotShare};
    }

    /// Announces the job to the service. If none runs, a user's own is started: any other one is its administrator's to
    /// start, with other options and other state. Returns why it failed, in one line; empty: success.
    std::string try_to_announce(bool may_start) {
        connection_.reset();
        os::Service service = socket_.empty() ? os::find_service() : os::find_service_at(socket_);
        whose_ = service.whose;
        socket_ = service.socket;
        may_come_ = service.may_come;
        if (service.is_absent && whose_ == os::Whose::kOwn && may_start) {
            if (const auto failure = start_service(socket_, {})) return failure->why;
            service = os::find_service_at(socket_);
        }
        Result<os::Descriptor>& connection = service.connection;
        if (!connection) return connection.error();
        std::error_code error;
        wire::Run message = wire::announcement_of(arguments_.command, std::filesystem::current_path(error).string());
        message.job = job_;
        message.name = wire::Text<64>(arguments_.name);
        message.log = wire::Text<256>(log_);
        message.runs = child_ > 0 ? 1 : 0;
        message.waited = waits_ ? 1 : 0;
        keys_ = {message.command_key, message.program_key};
        message.weight = arguments_.weight;
        message.priority = arguments_.priority;
        if (const auto wishes = this->wishes()) wire::send(connection.value().get(), *wishes);
        const wire::Announced announced = wire::announce(connection.value().get(), message);
        const auto& running = announced.running;
        may_come_ = announced.may_come;
        is_final_ = announced.is_final;
        if (announced.users_mistake && child_ <= 0) throw UsageError{announced.why_not};
        if (!running) return announced.why_not;
        job_ = running->job;
        place_ = {std::string(running->device.view()), std::string(running->gpu.view()), std::string(running->mps.view()),
                  running->has_several != 0 || !is_sure_of_gpu()};
        waits_ = running->waits != 0;
        connection_ = std::move(connection).value();
        if (child_ > 0) tell_unshared();  // to a new service
        return {};
    }

    /// Otherwise its CUDA_VISIBLE_DEVICES stays as its user has set it, and its client says which GPU that is.
    bool is_sure_of_gpu() const {
        const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
        return !arguments_.gpu.empty() || !visible || device::is_read_by_cuda_alike(visible);
    }

    /// Where the job is to run. Nothing: its user has said nothing, and neither has its environment.
    std::optional<wire::Wishes> wishes() const {
        wire::Wishes wishes;
        const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
        if (child_ > 0 && !place_.gpu.empty() && !place_.stays_assigned) {
            wishes.by = wire::Wishes::kEarlier;
            wishes.devices = wire::Text<448>(place_.gpu);
        } else if (!arguments_.gpu.empty()) {
            if (arguments_.gpu != "auto") wishes.by = wire::Wishes::kUser;
            wishes.devices = wire::Text<448>(arguments_.gpu);
        } else if (visible) {
            wishes.by = wire::Wishes::kEnvironment;
            wishes.devices = wire::Text<448>(device::gpus_by_uuid(visible));
        }
        if (arguments_.client_class == "batch") wishes.client_class = wire::Wishes::kBatch;
        if (arguments_.client_class == "interactive") wishes.client_class = wire::Wishes::kInteractive;
        if (!arguments_.memory_hint.empty()) {
            const auto parts = split(arguments_.memory_hint, '+');
            wishes.persistent = static_cast<std::uint64_t>(parse_bytes(parts[0])->count);
            wishes.ephemeral = static_cast<std::uint64_t>(parse_bytes(parts[1])->count);
        }
        const bool said = wishes.by != wire::Wishes::kNobody || wishes.client_class != 0 || wishes.persistent != 0;
        return said ? std::optional(wishes) : std::nullopt;
    }

    /// While the command runs.
    void lose_service() {
        connection_.reset();
        lost_at_ = os::now();
        starts_left_ = kTries;
        looks_ = true;
    }

    /// For as long as the job's clients, which look for a service by themselves and say whether the job still shares.
    void announce_again() {
        const std::string why = try_to_announce(starts_left_-- > 0);
        const Duration lost_for = os::now() - lost_at_, patience = os::orphan_wait();
        looks_ = !why.empty() && lost_for < patience;
        if (!why.empty() && lost_for >= kTellAfter)
            complain(
                fmt::format("{}; the job waits for the next service for up to {:.0f} s, then it continues without sharing",
                            why, patience.seconds()));
    }

    /// A process on a GPU takes memory before it asks for any, so it starts only when there is room.
    void wait_for_room() {
        while (connection_ && waits_) {
            os::readable_within(connection_.get(), os::kForEver);
            if (!hear()) announce();  // the service is gone: the next one says when to start
        }
    }

    /// For `salus ps`. If a process attaches nevertheless, the service forgets it.
    void tell_unshared() {
        const std::string why = why_unshared();
        if (connection_ && !why.empty()) wire::send(connection_.get(), wire::Unshared{job_, wire::Text<160>(why)});
    }

    /// Whether it is a Python that the adaptor can enter.
    void look_at_python() {
        const auto python = parse_python(arguments_.command);
        if (!python) return;
        const Result<Adaptor> adaptor = find_adaptor();
        if (python->shuts_out) why_no_adaptor_ = fmt::format("python -{} keeps the adaptor out", python->shuts_out);
        else if (!adaptor) why_no_adaptor_ = adaptor.error();
        is_adapted_ = why_no_adaptor_.empty();
    }

    /// What stands between the job and the GPU's driver.
    void find_shim() {
        if (place_.device != "cuda") return;
        why_no_shim_ = "--shim off leaves the shim out";
        if (arguments_.shim == "off") return;
        const Result<std::string> preload = preload_with_shim();
        if (preload) preload_ = preload.value();
        else why_no_shim_ = preload.error();
    }

    /// Why the job will not share, as far as one can tell before it starts; empty: it may. With the shim alone it takes
    /// turns.
    std::string why_unshared() const {
        if (is_adapted_ || !preload_.empty()) return "";
        return why_no_adaptor_.empty() ? why_no_shim_ : why_no_adaptor_;
    }

    void tell_what_is_missing() {
        if (!why_no_adaptor_.empty())
            complain(why_no_adaptor_ + (preload_.empty() ? "; the job runs without sharing"
                                                         : "; the job takes turns by launches, without lanes"));
        else if (!why_no_shim_.empty() && preload_.empty() && arguments_.shim != "off")
            complain(why_no_shim_ + "; only PyTorch scripts share the GPU");
    }

    /// As far as one can tell before the command starts. On the host, a command that is not Python may use the C interface.
    void check_that_it_shares() const {
        if (!arguments_.require) return;
        const char* const disabled = std::getenv("SALUS_DISABLE");
        if (disabled && *disabled && std::strcmp(disabled, "0") != 0) throw cannot_share("SALUS_DISABLE is set");
        if (const std::string why = why_unshared(); !why.empty()) throw cannot_share(why);
    }

    void complain(const std::string& what) {
        if (!complained_) say(what);
        complained_ = true;
    }

    /// Once the command runs, its progress bar may stand in the line of the terminal where we would write.
    void say(const std::string& what) const {
        const std::string line = fmt::format("salus: {}\n", printable(what));
        std::fputs(child_ > 0 ? on_own_line(line, os::terminal_columns(STDERR_FILENO)).c_str() : line.c_str(), stderr);
    }

    /// True in the process that continues in the background; the other one has informed the user.
    bool go_to_background() {
        const Result<NewLog> log = make_log(log_directory(), job_, arguments_.name);
        if (!log) throw Failure{log.error()};
        log_ = log.value().path;
        const int output = log.value().file.get();
        auto announced = os::make_signal_pair();
        const pid_t child = ::fork();
        if (child < 0) throw Failure{fmt::format("fork: {}", std::strerror(errno))};
        if (child > 0) {
            // Until then our own connection keeps the job known: whoever looks next must find it.
            if (announced) {
                announced->first.reset();
                os::readable_within(announced->second.get(), kAnnouncePatience);
            }
            fmt::print("job {} ({}) runs in the background; its output is in {}\n", job_, printable(arguments_.name), log_);
            return false;
        }
        ::setsid();
        os::put_at(os::open_file("/dev/null", os::Open::kRead).release(), STDIN_FILENO);
        os::put_at(output, STDOUT_FILENO);
        os::put_at(output, STDERR_FILENO);
        waits_ = false;  // no service was lost
        announce();      // again, from the process that stays
        if (announced) os::signal_through(announced->first.get());
        return true;
    }

    void set_environment() const {
        const auto iterations = static_cast<std::uint64_t>(arguments_.iterations.value_or(0));
        JobIdentity job{socket_, arguments_.name, job_, arguments_.priority, arguments_.weight, 1, iterations};
        if (!arguments_.memory_hint.empty()) {
            const auto parts = split(arguments_.memory_hint, '+');
            job.memory_hint = {*parse_bytes(parts[0]), *parse_bytes(parts[1])};
        }
        job.place = place_;
        if (!arguments_.memory.empty()) job.memory_limit = *parse_bytes(arguments_.memory);
        job.preload = preload_;
        job.client_class = arguments_.client_class;
        if (is_final_) ::setenv("SALUS_DISABLE", "1", 1);
        for (const auto& [name, value] : job_environment(job)) ::setenv(name.c_str(), value.c_str(), 1);
        if (std::getenv("SALUS_STATE")) ::setenv("SALUS_STATE", os::default_state_directory().c_str(), 1);
    }

    // Note [Ctrl-Z]
    // A process that is stopped cannot move its memory off the device, and keeps its lane. So the job ignores SIGTSTP,
    // unless it sets a handler of its own, and `salus run` takes it: it has the service suspend the job, which takes at most
    // kOffPatience, and then stops the job's processes and itself by SIGSTOP. When it is continued, the job goes on and is
    // resumed. A job that its user has paused or suspended stays so. What stops processes without asking, as SIGSTOP and a
    // debugger do, finds the job where it is.

    void start() {
        // All signals are for the job, but for those that stop processes and those that are our own faults.
        ::sigfillset(&passed_on_);
        for (const int signal : {SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
            ::sigdelset(&passed_on_, signal);
        }
        struct sigaction on_stop {};
        ::sigaction(SIGTSTP, nullptr, &on_stop);
        const bool takes_stops = on_stop.sa_handler == SIG_DFL;
        if (!takes_stops) ::sigdelset(&passed_on_, SIGTSTP);
        sigset_t before;
        ::sigprocmask(SIG_BLOCK, &passed_on_, &before);
        started_ns_ = os::now_ns();
        child_ = ::fork();
        if (child_ < 0) throw Failure{fmt::format("fork: {}", std::strerror(errno))};
        if (child_ > 0) return;
        if (takes_stops) ::signal(SIGTSTP, SIG_IGN);
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        set_environment();
        become(arguments_.command);
    }

    int supervise() {
        const os::Descriptor signals(::signalfd(-1, &passed_on_, SFD_CLOEXEC | SFD_NONBLOCK));
        for (;;) {
            const int watched[] = {signals.get(), connection_.get()};
            const std::uint32_t ready = os::readable_of(watched, looks_ ? kComeBackAfter : os::kForEver);
            signalfd_siginfo info{};
            while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
                if (info.ssi_signo == SIGCHLD) continue;
                if (info.ssi_signo == SIGTSTP) {
                    stop_and_go_on();
                    continue;
                }
                if (connection_ && !preload_.empty() && may_end(static_cast<int>(info.ssi_signo)))
                    wire::send(connection_.get(), wire::Interrupted{});
                const bool as_kill = info.ssi_code == SI_QUEUE && info.ssi_int == wire::kPassOnAsKill;
                // The terminal sends its signals to the job, too.
                if (info.ssi_code != SI_KERNEL) ::kill(child_, as_kill ? SIGKILL : static_cast<int>(info.ssi_signo));
            }
            while (const auto end = os::reap(os::kAnyChild)) {
                if (end->pid != child_) continue;
                tell_end(*end);
                return end_like(*end);
            }
            if (connection_ && (ready & 2) != 0 && !hear()) lose_service();
            if (looks_) announce_again();
        }
    }

    /// See Note [Ctrl-Z]. Returns when this process has been continued.
    void stop_and_go_on() {
        const bool suspends = suspend_job();
        if (!is_to_continue() && !has_ended()) {
            os::stop_tree(child_);
            ::raise(SIGSTOP);
        }
        os::continue_tree(child_);
        if (suspends) tell_service(wire::ResumeJob{{job_, {}}});
    }

    /// True: the service has been told. Then it waits until the job has given up what it can, but not for ever.
    bool suspend_job() {
        if (job_ == 0) return false;
        const std::vector<JobStatus> before = own_rows();
        const auto rests = [](const JobStatus& row) {
            return row.state == JobState::kPaused || row.state == JobState::kSuspended;
        };
        if (before.empty() || std::ranges::any_of(before, rests)) return false;
        if (!tell_service(wire::SuspendJob{{job_, {}}})) return false;
        const auto is_off = [&](const JobStatus& row) { return !row.activity || (rests(row) && !row.activity->suspending); };
        for (const Instant until = os::now() + kOffPatience; os::now() < until; os::sleep_for(kLookWhetherOff)) {
            if (is_to_continue() || std::ranges::all_of(own_rows(), is_off)) break;
        }
        return true;
    }

    bool tell_service(const wire::Command& command) const { return ask_service(socket_, command).ok(); }

    std::vector<JobStatus> own_rows() const {
        const Result<std::string> answer = ask_service(socket_, wire::AskStatus{});
        std::vector<JobStatus> rows;
        if (answer) rows = status_from(nlohmann::json::parse(answer.value(), nullptr, false)).jobs;
        std::erase_if(rows, [&](const JobStatus& row) { return row.job != job_; });
        return rows;
    }

    /// SIGCONT has come already.
    static bool is_to_continue() {
        sigset_t pending;
        return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGCONT) == 1;
    }
    bool has_ended() const { return os::has_ended(child_); }

    static bool may_end(int signal) {
        return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    }

    /// Waits until the service has recorded the run and hung up, so that the history contains it afterwards. If none runs,
    /// the next one records it.
    void tell_end(const os::Exit& end) {
        if (job_ == 0) return;  // no service has ever heard of it
        const std::uint64_t took_ns = os::now_ns() - started_ns_;
        if (!connection_) try_to_announce(/*may_start=*/false);  // it may be back by now
        if (connection_ && wire::send(connection_.get(), wire::Ended{status_of(end), took_ns})) {
            os::readable_within(connection_.get(), kEndPatience);
            return;
        }
        history::Run run;
        run.keys = keys_;
        run.command = text_of_command(arguments_.command);
        run.took = {static_cast<std::int64_t>(took_ns)};
        run.ended_at_s = os::unix_time_s();
        run.status = status_of(end);
        const Result<bool> left = leave_untold(whose_, socket_, run);
        if (!left) complain("the history will lack this run: " + left.error());
    }

    /// The exit status as a shell reports it.
    static int status_of(const os::Exit& end) { return end.by_signal ? 128 + end.number : end.number; }

    static int end_like(const os::Exit& end) {
        if (!end.by_signal) return end.number;
        const int signal = end.number;
        sigset_t only;
        ::sigemptyset(&only);
        ::sigaddset(&only, signal);
        ::signal(signal, SIG_DFL);
        ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
        if (signal != SIGQUIT && signal != SIGABRT && signal != SIGSEGV) ::raise(signal);  // those would leave a second core
        return status_of(end);
    }

    /// Handles a message of the service; false if the service is gone.
    bool hear() {
        const wire::Received received = wire::receive(connection_.get());
        if (received.kind != wire::Received::Kind::kMessage) return false;
        if (const auto* start = std::get_if<wire::Start>(&received.message)) {
            waits_ = told_ = false;
            if (!start->gpu.view().empty()) place_.gpu = std::string(start->gpu.view());
            place_.mps_directory = std::string(start->mps.view());
        }
        const auto* waits = std::get_if<wire::Waits>(&received.message);
        if (!waits || told_) return true;
        StartWait wait{{wait_reason_from(waits->reason.view()),
                        {},
                        waits->user_jobs_max,
                        {static_cast<std::int64_t>(waits->user_memory_max)}}};
        if (!waits->behind.view().empty() || waits->behind_job != 0)
            wait.behind = {std::string(waits->behind.view()), waits->behind_job};
        const JobState state = job_state_from(waits->state.view());
        const bool waits_to_start = waits_ && state != JobState::kSuspended;
        const std::string why = waits_to_start ? start_wait_text(wait) : wait_text(state, wait);
        if (!why.empty()) say(arguments_.name + " " + why);
        told_ = true;
        return true;
    }

    RunArguments arguments_;
    os::Whose whose_ = os::Whose::kOwn;
    std::string socket_;  ///< empty: not looked for yet
    bool may_come_ = false;
    std::string log_;
    os::Descriptor connection_;
    std::uint32_t job_ = 0;
    Place place_;
    bool is_adapted_ = false;     ///< its Python loads the adaptor
    std::string why_no_adaptor_;  ///< if it is Python
    std::string preload_;         ///< for LD_PRELOAD
    std::string why_no_shim_;     ///< if there is a GPU
    CommandKeys keys_;
    bool waits_ = false;  ///< for Start
    pid_t child_ = -1;
    std::uint64_t started_ns_ = 0;
    sigset_t passed_on_{};
    bool told_ = false;   ///< its user, for what it waits
    Instant lost_at_;     ///< the service
    bool looks_ = false;  ///< for the next one
    int starts_left_ = 0;
    bool complained_ = false;
    bool is_final_ = false;  ///< no service here has a device for the job
};

bool splits_a_name(unsigned char c) { return c <= 0x20 || c == 0x7f; }

/// Other commands take a job's name as one word, and treat a number as the job's number.
void check_name(const std::string& name) {
    if (std::any_of(name.begin(), name.end(), splits_a_name))
        throw UsageError{"--name must be one word, without blanks or control characters"};
    if (parse_integer(name)) throw UsageError{fmt::format("--name must not be a number; got '{}'", name)};
}

/// A name that check_name() accepts, whatever the command.
std::string name_from(const std::vector<std::string>& command) {
    std::string name = name_of_command(command);
    std::replace_if(name.begin(), name.end(), splits_a_name, '_');
    return name.empty() || parse_integer(name) ? "job-" + name : name;
}

void check(RunArguments& a) {
    if (a.command.empty()) throw UsageError{"no command given: salus run [options] -- COMMAND"};
    if (a.name.empty()) a.name = name_from(a.command);
    if (a.name.size() > 63) a.name.resize(63);
    check_name(a.name);
    if (!(a.weight >= wire::kWeightMin && a.weight <= wire::kWeightMax))
        throw UsageError{fmt::format("--weight must be from 0.000001 to 1000000; got '{}'", a.weight)};
    if (a.priority < -1'000'000 || a.priority > 1'000'000)
        throw UsageError{fmt::format("--priority must be from -1000000 to 1000000; got '{}'", a.priority)};
    if (a.iterations && (*a.iterations < 1 || *a.iterations > kIterationsMax))
        throw UsageError{fmt::format("--iterations must be from 1 to {}; got '{}'", kIterationsMax, *a.iterations)};
    if (!a.client_class.empty() && a.client_class != "batch" && a.client_class != "interactive")
        throw UsageError{fmt::format("--class must be batch or interactive; got '{}'", a.client_class)};
    if (a.gpu.size() > 447 || std::any_of(a.gpu.begin(), a.gpu.end(), splits_a_name))
        throw UsageError{
            fmt::format("--gpu must be numbers or UUIDs of GPUs, with commas between them, or auto; got '{}'", a.gpu)};
    if (a.shim != "on" && a.shim != "off") throw UsageError{fmt::format("--shim must be on or off; got '{}'", a.shim)};
    if (!a.memory.empty()) {
        const auto limit = parse_bytes(a.memory);
        if (!limit || *limit < mebibytes(1) || *limit > kHintMax)
            throw UsageError{fmt::format("--memory must be at least 1MiB, such as 8GiB; got '{}'", a.memory)};
        if (a.shim == "off") throw UsageError{"--memory needs the shim; it cannot be used with --shim off"};
    }
    if (a.memory_hint.empty()) return;
    const auto parts = split(a.memory_hint, '+');
    const auto is_size = [](std::string_view text) { return parse_bytes(text).value_or(kHintMax + Bytes{1}) <= kHintMax; };
    if (parts.size() != 2 || !is_size(parts[0]) || !is_size(parts[1]))
        throw UsageError{fmt::format("--memory-hint must be P+T, such as 200MiB+2GiB; got '{}'", a.memory_hint)};
    for (const std::string_view part : parts) {
        if (parse_number(part) && *parse_bytes(part) < mebibytes(1))
            throw UsageError{fmt::format("--memory-hint: '{0}' has no unit and would be bytes; write {0}MiB", part)};
    }
}

}  // namespace

void add_run_command(CLI::App& program, Action& action) {
    CLI::App* run = program.add_subcommand("run", "Run a command as a job that shares the device");
    auto a = std::make_shared<RunArguments>();
    run->add_option("--name", a->name, "Name of the job (default: that of the command or Python script)");
    run->add_option("--priority", a->priority, "Higher is more urgent (policy priority)");
    run->add_option("--weight", a->weight, "Share of the time, relative to other jobs (policy fair)")->capture_default_str();
    run->add_option("--class", a->client_class,
                    "batch: it works through a queue; interactive: somebody waits for its answers, so it waits for no batch "
                    "job (default: found by what it does)")
        ->type_name("batch|interactive");
    run->add_option("--iterations", a->iterations,
                    "Number of iterations as Salus counts them, including evaluation calls; salus history shows that of an "
                    "earlier run (policy srtf ranks by it, ps shows progress)");
    run->add_option("--memory-hint", a->memory_hint,
                    "Persistent and ephemeral memory, such as 200MiB+2GiB; saves learning them")
        ->type_name("P+T");
    run->add_option("--memory", a->memory, "Most GPU memory that each process of the job may allocate, such as 8GiB")
        ->type_name("SIZE");
    run->add_option("--gpu", a->gpu,
                    "The job's GPU, by number or UUID; of several (0,2) one; auto: any (default: those in "
                    "CUDA_VISIBLE_DEVICES if that is set, else auto)")
        ->type_name("N|UUID|auto");
    run->add_option("--shim", a->shim,
                    "on: the job's calls of the GPU's driver pass through Salus; off: only PyTorch shares")
        ->type_name("on|off")
        ->capture_default_str();
    run->add_flag("--require", a->require,
                  "Do not start a job that cannot share; exit status 125 (also require = true in salus.toml)");
    run->add_flag("-d,--detach", a->detach, "Run in the background and write a log (salus logs)");
    run->add_option("command", a->command, "The command and its arguments, after --");
    run->positionals_at_end();
    run->prefix_command(false);
    run->callback([a, &action] {
        action = [a] {
            check(*a);
            const Configuration configuration = read_configuration(configuration_files());
            if (!configuration.not_trusted.empty())
                std::fprintf(stderr, "salus: %s\n", printable(configuration.not_trusted).c_str());
            a->require = a->require || configuration.require;
            return Runner(*a).run();
        };
    });
}

}  // namespace salus::cli
