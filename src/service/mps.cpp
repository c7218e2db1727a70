#include "service/mps.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
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
#include "os/process.h"
#include "service/log.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "nvidia-cuda-mps-control";
constexpr std::string_view kLongestSocket = "/control_privileged";
/// Our own, since the daemon's is there only after a while: its number, and whether it has been told to quit.
constexpr std::string_view kPidFile = "daemon.pid";
constexpr std::string_view kRuns = "runs", kQuits = "quits";
/// Of the daemon; what else it makes are sockets and pipes.
constexpr std::array<std::string_view, 5> kFiles = {"control", "control_lock", "control_privileged", "log",
                                                    "nvidia-cuda-mps-control.pid"};
constexpr Duration kLook = milliseconds(10);

/// Empty if there is none.
std::string find_program() {
    const char* path = std::getenv("PATH");
    std::string_view left = path ? path : "";
    std::vector<std::string> directories;
    while (!left.empty()) {
        const std::size_t end = std::min(left.find(':'), left.size());
        directories.emplace_back(left.substr(0, end));
        left.remove_prefix(std::min(end + 1, left.size()));
    }
    directories.insert(directories.end(), {"/usr/bin", "/usr/local/nvidia/bin"});
    for (const std::string& directory : directories) {
        std::string program = directory + "/" + kProgram;
        if (directory.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    }
    return "";
}

/// A killed service may hold its lock for a moment longer.
bool take_lock(int directory) {
    for (int tries = 0; tries < 200; ++tries) {
        if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
        ::poll(nullptr, 0, 10);
    }
    return false;
}

/// Made if need be, closed to others, and locked.
Result<os::Descriptor> take_directory(const std::string& path) {
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Error{path + ": " + std::strerror(errno)};
    os::Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0) return Error{path + ": " + std::strerror(errno)};
    if (status.st_uid != ::getuid()) return Error{path + " belongs to another user"};
    if (::fchmod(directory.get(), 0700) != 0) return Error{path + ": " + std::strerror(errno)};
    if (!take_lock(directory.get())) return Error{"another service runs MPS in " + path};
    return directory;
}

/// What a daemon makes, except for its logs.
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

bool gone_within(int pidfd, Duration limit) {
    pollfd watched{pidfd, POLLIN, 0};
    return ::poll(&watched, 1, static_cast<int>(limit.ns / 1'000'000)) == 1;
}

/// As the process was started.
bool has_variable(int pid, const std::string& variable) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    for (std::string entry; std::getline(file, entry, '\0');) {
        if (entry == variable) return true;
    }
    return false;
}

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
    // The number may be another's by now; what the descriptor stands for cannot change any more.
    if (!found.pidfd || gone_within(found.pidfd.get(), Duration{}) || !has_variable(found.pid, pipes_are(pipes))) return {};
    return found;
}

std::vector<std::string> environment_with(const std::vector<std::string>& ours) {
    std::vector<std::string> all = ours;
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view theirs = *entry;
        const std::string_view name = theirs.substr(0, theirs.find('='));
        const bool replaced = std::ranges::any_of(
            ours, [&](std::string_view own) { return own.starts_with(name) && own.substr(name.size()).starts_with('='); });
        if (!replaced) all.emplace_back(theirs);
    }
    return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

/// In a session of its own, so that what a terminal sends does not reach it.
pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, int input, int output) {
    const std::vector<char*> arguments = pointers_to(command);
    const std::vector<char*> variables = pointers_to(environment);
    const pid_t child = ::fork();
    if (child != 0) return child;
    // From here on only what is safe after a fork of a process with threads, which the CUDA driver starts.
    ::setsid();
    sigset_t none;  // the service blocks SIGTERM, which would be passed on
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) ::signal(signal, SIG_DFL);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::close_range(3, ~0u, 0);
    ::execve(arguments[0], arguments.data(), variables.data());
    constexpr std::string_view sorry = "it cannot be executed\n";
    static_cast<void>(!::write(STDERR_FILENO, sorry.data(), sorry.size()));
    ::_exit(127);
}

}  // namespace

bool wants_mps(MpsMode mode, unsigned lanes_option, unsigned lanes_the_policy_wants, bool cuda) {
    if (!cuda || mode == MpsMode::kOff) return false;
    if (mode == MpsMode::kOn) return true;
    return (lanes_option != 0 ? lanes_option : lanes_the_policy_wants) > 1;
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
    mps->program_ = find_program();
    if (mps->program_.empty()) return Error{std::string("MPS cannot be started: there is no ") + kProgram};
    if (!mps->find_place_for_pipes()) return Error{std::string("/tmp: ") + std::strerror(errno)};
    mps->environment_ =
        environment_with({pipes_are(mps->pipes_), "CUDA_MPS_LOG_DIRECTORY=" + mps->logs_, sees_only(gpu_uuid)});
    return mps;
}

/// Where the directory's name is too long for a socket they are in /tmp, and a link in the directory leads there: also the
/// service that comes after a killed one.
bool Mps::find_place_for_pipes() {
    if (logs_.size() + kLongestSocket.size() < sizeof(sockaddr_un::sun_path)) return true;
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
    if (!left.pidfd || left.quits || !has_variable(left.pid, sees_only(gpu_uuid))) return false;
    if (::access((pipes_ + "/control").c_str(), F_OK) != 0) return false;
    pid_ = left.pid;
    pidfd_ = std::move(left.pidfd);
    taken_over_ = true;
    return true;
}

/// It may take a while to end, and would then remove the pipes of the next.
void Mps::end_predecessor() const {
    const Predecessor found = find_predecessor(logs_, pipes_);
    if (!found.pidfd) return;
    os::send_signal(found.pidfd.get(), SIGTERM);
    if (gone_within(found.pidfd.get(), patience_.terminate)) return;
    os::send_signal(found.pidfd.get(), SIGKILL);
    gone_within(found.pidfd.get(), patience_.terminate);
}

void Mps::write_pid(std::string_view state) const {
    std::ofstream file(logs_ + "/" + std::string(kPidFile));
    file << pid_ << ' ' << state << '\n' << std::flush;
    if (!file) log(LogLevel::kWarning, "{}: cannot be written; should this service be killed, its MPS is not found", logs_);
}

Result<bool> Mps::launch() {
    end_predecessor();
    clear(pipes_);
    const os::Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const os::Descriptor out(::open(output().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    if (!nothing || !out) return Error{output() + ": " + std::strerror(errno)};
    pid_ = spawn({program_, "-f"}, environment_, nothing.get(), out.get());
    if (pid_ < 0) return Error{std::string("fork: ") + std::strerror(errno)};
    write_pid(kRuns);
    pidfd_ = os::open_pidfd(pid_);  // not reaped yet, so the number is still its own
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
    return Error{"MPS does not come up: " + (said.empty() ? "see " + logs_ + "/control.log" : said)};
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
    siginfo_t end{};
    if (taken_over_ || ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) != 0) {
        return "MPS has ended" + (said.empty() ? "" : ": " + said);
    }
    return fmt::format("MPS {} {}{}{}", end.si_code == CLD_EXITED ? "ended with status" : "was ended by signal",
                       end.si_status, said.empty() ? "" : ": ", said);
}

void Mps::stop() {
    std::error_code error;
    if (pid_ > 0) {
        write_pid(kQuits);  // should we be killed meanwhile: the next is not to take it over
        if (!ends_when_asked()) {
            // Its session, which has its server: a child's number is its own until it is reaped, any other's while it runs.
            if (!taken_over_ || !is_gone()) ::kill(-pid_, SIGKILL);
            os::send_signal(pidfd_.get(), SIGKILL);
        }
        if (taken_over_) gone_within(pidfd_.get(), patience_.terminate);
        else ::waitpid(pid_, nullptr, 0);
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

/// Then its server has ended, too. False if it is to be killed, or was.
bool Mps::ends_when_asked() {
    if (!pidfd_ || is_gone()) return false;
    if (quits()) return true;
    os::send_signal(pidfd_.get(), SIGTERM);
    if (gone_within(pidfd_.get(), patience_.terminate)) return true;
    log(LogLevel::kWarning, "MPS does not end when asked to and is killed");
    return false;
}

/// The same program, without arguments, passes on commands.
bool Mps::quits() {
    int ends[2] = {-1, -1};
    if (::access((pipes_ + "/control").c_str(), F_OK) != 0) return false;  // it never came up
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    const os::Descriptor input(ends[0]);
    os::Descriptor command(ends[1]);
    const os::Descriptor out(::open(output().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    constexpr std::string_view quit = "quit\n";  // a pipe holds that much
    if (!out || ::write(command.get(), quit.data(), quit.size()) != static_cast<ssize_t>(quit.size())) return false;
    command.reset();
    const pid_t messenger = spawn({program_}, environment_, input.get(), out.get());
    if (messenger < 0) return false;
    bool gone = false;
    bool told = true;
    for (Duration waited; !gone && told && waited < patience_.quit; waited += kLook) {
        gone = gone_within(pidfd_.get(), kLook);
        siginfo_t end{};
        ::waitid(P_PID, static_cast<id_t>(messenger), &end, WEXITED | WNOHANG | WNOWAIT);
        told = end.si_pid == 0 || end.si_status == 0;
    }
    ::kill(messenger, SIGKILL);
    ::waitpid(messenger, nullptr, 0);
    return gone;
}

}  // namespace salus::service
