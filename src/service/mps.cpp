#include "service/mps.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "os/file.h"
#include "os/lock.h"
#include "os/poll.h"
#include "os/process.h"
#include "os/program.h"
#include "os/socket.h"
#include "service/log.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "nvidia-cuda-mps-control";
constexpr std::string_view kLongestSocket = "/control_privileged";
/// Our own file, because the daemon writes its own only after a while: its pid, and whether it was told to quit.
constexpr std::string_view kPidFile = "daemon.pid";
constexpr std::string_view kRuns = "runs", kQuits = "quits";
/// Files of the daemon. All else that it makes are sockets and pipes.
constexpr std::array<std::string_view, 5> kFiles = {"control", "control_lock", "control_privileged", "log",
                                                    "nvidia-cuda-mps-control.pid"};
constexpr Duration kLook = milliseconds(10);
/// A killed service may hold its lock for a moment longer.
constexpr Duration kDirectoryPatience = seconds(2);

/// Makes the directory if needed, closes it to others, and locks it.
Result<os::Descriptor> take_directory(const std::string& path) {
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Error{path + ": " + std::strerror(errno)};
    os::Descriptor directory = os::open_file(path, os::Open::kDirectory);
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0) return Error{path + ": " + std::strerror(errno)};
    if (status.st_uid != ::getuid()) return Error{path + " belongs to another user"};
    if (::fchmod(directory.get(), 0700) != 0) return Error{path + ": " + std::strerror(errno)};
    if (!os::take_lock(directory.get(), kDirectoryPatience)) return Error{"another service runs MPS in " + path};
    return directory;
}

/// Removes what a daemon makes, except for its logs.
void clear(const std::string& directory) {
    std::error_code error;
    std::vector<fs::path> made;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
        const fs::file_type type = entry.symlink_status(error).type();
        const bool named = std::ranges::count(kFiles, entry.path().filename().string()) > 0;
        if (named || type == fs::file_type::socket || type == fs::file_type::fifo) made.push_back(entry.path());
    }
    for (const fs::path& path : made) fs::remove(path, error);
}

bool gone_within(int pidfd, Duration limit) { return os::readable_within(pidfd, limit); }

std::string sees_only(const std::string& gpu_uuid) { return "CUDA_VISIBLE_DEVICES=" + gpu_uuid; }
std::string pipes_are(const std::string& directory) { return "CUDA_MPS_PIPE_DIRECTORY=" + directory; }

struct Predecessor {
    pid_t pid = -1;
    os::Descriptor pidfd;  ///< empty if there is none
    bool quits = false;
};

/// A daemon whose service was killed.
Predecessor find_predecessor(const std::string& logs, const std::string& pipes) {
    Predecessor found;
    std::string state;
    std::ifstream(fs::path(logs) / kPidFile) >> found.pid >> state;
    if (found.pid <= 0) return {};
    found.pidfd = os::open_pidfd(found.pid);
    found.quits = state == kQuits;
    // Another process may have this pid by now. What the pidfd refers to no longer changes, so check it.
    if (!found.pidfd || gone_within(found.pidfd.get(), Duration{}) || !os::was_started_with(found.pid, pipes_are(pipes)))
        return {};
    return found;
}

/// In a session of its own, so that a terminal's signals do not reach it, and without the service's blocked signals.
Result<int> launch_apart(std::vector<std::string> command, const std::vector<std::string>& environment, int input,
                         int output) {
    return os::spawn({std::move(command), environment, input, output, os::Launch::Leads::kSession, /*fresh=*/true});
}

}  // namespace

bool wants_mps(MpsMode mode, unsigned lanes_option, unsigned lanes_the_policy_wants, bool cuda, bool all_users,
               std::optional<bool> helps) {
    if (!cuda || mode == MpsMode::kOff) return false;
    if (mode == MpsMode::kOn) return true;
    if (all_users) return false;
    if (helps) return *helps;
    return (lanes_option != 0 ? lanes_option : lanes_the_policy_wants) > 1;
}

bool may_join_mps(unsigned service_uid, unsigned job_uid, std::size_t on_mps) {
    return job_uid == service_uid && on_mps < Mps::kClientsMax;
}

// ---------------------------------------------------------------------------------------------------------------- start

Mps::Mps(std::string logs, os::Descriptor lock, MpsPatience patience)
    : logs_(std::move(logs)), pipes_(logs_), lock_(std::move(lock)), patience_(patience) {}

Result<std::unique_ptr<Mps>> Mps::start(const std::string& directory, const std::string& gpu_uuid, MpsPatience patience) {
    Result<std::unique_ptr<Mps>> prepared = prepare(directory, gpu_uuid, patience);
    if (!prepared) return Error{prepared.error()};
    std::unique_ptr<Mps> mps = std::move(prepared).value();
    if (mps->take_over(gpu_uuid)) return mps;
    const Result<bool> launched = mps->launch();
    if (!launched) return Error{launched.error()};
    const Result<bool> ready = mps->wait_until_ready();
    if (!ready) return Error{ready.error()};
    return mps;
}

std::unique_ptr<Mps> Mps::find(const std::string& directory, const std::string& gpu_uuid, MpsPatience patience) {
    std::error_code error;
    if (!fs::exists(fs::path(directory) / kPidFile, error)) return nullptr;
    Result<std::unique_ptr<Mps>> prepared = prepare(directory, gpu_uuid, patience);
    if (!prepared || !prepared.value()->take_over(gpu_uuid)) return nullptr;
    return std::move(prepared).value();
}

Result<std::unique_ptr<Mps>> Mps::prepare(const std::string& directory, const std::string& gpu_uuid, MpsPatience patience) {
    // Clients have working directories of their own.
    const std::string path = fs::absolute(directory).lexically_normal().string();
    Result<os::Descriptor> lock = take_directory(path);
    if (!lock) return Error{lock.error()};
    std::unique_ptr<Mps> mps(new Mps(path, std::move(lock).value(), patience));
    mps->program_ = os::find_program(kProgram, {"/usr/bin", "/usr/local/nvidia/bin"});
    if (mps->program_.empty()) return Error{std::string("MPS cannot be started: there is no ") + kProgram};
    if (!mps->find_place_for_pipes()) return Error{std::string("/tmp: ") + std::strerror(errno)};
    mps->environment_ =
        os::environment_with({pipes_are(mps->pipes_), "CUDA_MPS_LOG_DIRECTORY=" + mps->logs_, sees_only(gpu_uuid)});
    return mps;
}

/// If the directory's path is too long for a socket, the pipes are in /tmp. A link in the directory leads there, also for
/// the service that follows a killed one.
bool Mps::find_place_for_pipes() {
    if (logs_.size() + kLongestSocket.size() <= os::kSocketPathMax) return true;
    const std::string link = logs_ + "/pipes";
    std::error_code error;
    const fs::path before = fs::read_symlink(link, error);
    struct stat status {};
    if (!error && ::lstat(before.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid()) {
        pipes_ = before;
        return true;
    }
    char name[] = "/tmp/salus-mps-XXXXXX";
    if (!::mkdtemp(name)) return false;
    pipes_ = name;
    fs::remove(link, error);
    fs::create_symlink(pipes_, link, error);
    return true;
}

bool Mps::take_over(const std::string& gpu_uuid) {
    Predecessor left = find_predecessor(logs_, pipes_);
    if (!left.pidfd || left.quits || !os::was_started_with(left.pid, sees_only(gpu_uuid))) return false;
    if (::access((pipes_ + "/control").c_str(), F_OK) != 0) return false;
    pid_ = left.pid;
    pidfd_ = std::move(left.pidfd);
    taken_over_ = true;
    return true;
}

/// Waits for its end, because at its end it would remove the pipes of the next daemon.
void Mps::end_predecessor() const {
    const Predecessor found = find_predecessor(logs_, pipes_);
    if (!found.pidfd) return;
    os::send_signal(found.pidfd.get(), SIGTERM);
    if (gone_within(found.pidfd.get(), patience_.terminate)) return;
    os::send_signal(found.pidfd.get(), SIGKILL);
    gone_within(found.pidfd.get(), patience_.terminate);
}

void Mps::write_pid(std::string_view state) const {
    const auto written = os::write_file(logs_ + "/" + std::string(kPidFile), fmt::format("{} {}\n", pid_, state));
    if (!written)
        log(LogLevel::kWarning, "{} cannot be written; if this service is killed, the next one will not find its MPS",
            logs_);
}

Result<bool> Mps::launch() {
    end_predecessor();
    clear(pipes_);
    const os::Descriptor nothing = os::open_file("/dev/null", os::Open::kRead);
    const os::Descriptor out = os::open_file(output(), os::Open::kReplace);
    if (!nothing || !out) return Error{output() + ": " + std::strerror(errno)};
    const Result<int> child = launch_apart({program_, "-f"}, environment_, nothing.get(), out.get());
    if (!child) return Error{child.error()};
    pid_ = child.value();
    write_pid(kRuns);
    pidfd_ = os::open_pidfd(pid_);  // not reaped yet, so the pid is still its own
    if (!pidfd_) return Error{std::string("pidfd_open: ") + std::strerror(errno)};
    return true;
}

Result<bool> Mps::wait_until_ready() {
    const std::string control = pipes_ + "/control";
    for (Duration waited; waited < patience_.start; waited += kLook) {
        if (gone_within(pidfd_.get(), kLook)) return Error{why_gone()};
        if (::access(control.c_str(), F_OK) == 0) return true;
    }
    const std::string said = last_words();
    return Error{"MPS did not start: " + (said.empty() ? "see " + logs_ + "/control.log" : said)};
}

// ------------------------------------------------------------------------------------------------------------------ end

std::string Mps::last_words() const {
    std::ifstream file(output());
    return last_line_of(file);
}

bool Mps::is_gone() const { return gone_within(pidfd_.get(), Duration{}); }

std::string Mps::why_gone() const {
    if (pid_ < 0) return "MPS was stopped";
    if (!is_gone()) return "";
    const std::string said = last_words();
    const auto end = taken_over_ ? std::nullopt : os::look_for_end(pid_);
    if (!end) return "MPS has ended" + (said.empty() ? "" : ": " + said);
    return fmt::format("MPS {} {}{}{}", end->by_signal ? "was ended by signal" : "ended with status", end->number,
                       said.empty() ? "" : ": ", said);
}

void Mps::stop() {
    std::error_code error;
    if (pid_ > 0) {
        write_pid(kQuits);  // if we are killed meanwhile, the next service must not take it over
        if (!ends_when_asked()) {
            // Kill its session, which contains its server. The pid is surely its own: a child's until it is reaped, that of
            // a daemon taken over while it runs.
            if (!taken_over_ || !is_gone()) ::kill(-pid_, SIGKILL);
            os::send_signal(pidfd_.get(), SIGKILL);
        }
        if (taken_over_) gone_within(pidfd_.get(), patience_.terminate);
        else os::wait_for_end(pid_);
        pid_ = -1;
        pidfd_.reset();
        clear(pipes_);
        fs::remove(logs_ + "/" + std::string(kPidFile), error);
    }
    if (pipes_ != logs_ && !find_predecessor(logs_, pipes_).pidfd) {
        fs::remove_all(pipes_, error);
        fs::remove(logs_ + "/pipes", error);
    }
    lock_.reset();
}

void Mps::leave() {
    pid_ = -1;
    pidfd_.reset();
}

/// True: the daemon has ended, and its server, too. False: it must be killed, or was already gone.
bool Mps::ends_when_asked() {
    if (!pidfd_ || is_gone()) return false;
    if (quits()) return true;
    os::send_signal(pidfd_.get(), SIGTERM);
    if (gone_within(pidfd_.get(), patience_.terminate)) return true;
    log(LogLevel::kWarning, "MPS did not stop when asked; killing it");
    return false;
}

/// Tells the daemon to quit. The same program, without arguments, passes on commands.
bool Mps::quits() {
    if (::access((pipes_ + "/control").c_str(), F_OK) != 0) return false;  // it never started
    auto pipe = os::make_pipe();
    if (!pipe) return false;
    auto& [input, command] = *pipe;
    const os::Descriptor out = os::open_file(output(), os::Open::kAppend);
    constexpr std::string_view quit = "quit\n";  // fits into a pipe
    if (!out || !os::write_all(command.get(), quit)) return false;
    command.reset();
    const Result<int> messenger = launch_apart({program_}, environment_, input.get(), out.get());
    if (!messenger) return false;
    bool gone = false;
    bool told = true;
    for (Duration waited; !gone && told && waited < patience_.quit; waited += kLook) {
        gone = gone_within(pidfd_.get(), kLook);
        const auto end = os::look_for_end(messenger.value());
        told = !end || end->number == 0;
    }
    ::kill(messenger.value(), SIGKILL);
    os::wait_for_end(messenger.value());
    return gone;
}

}  // namespace salus::service
