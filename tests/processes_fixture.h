// Real processes for tests: a service in a directory of its own, and jobs that attach to it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/service_link.h"
#include "os/process.h"
#include "os/socket.h"

namespace salus::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
/// Nothing here takes that long; it only ends what hangs.
inline constexpr double kPatienceS = 120;

inline double seconds_now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline void sleep_s(double s) {
    const timespec time{static_cast<time_t>(s), static_cast<long>((s - static_cast<double>(static_cast<time_t>(s))) * 1e9)};
    ::nanosleep(&time, nullptr);
}

/// True as soon as `holds` is; false when patience ends.
inline bool eventually(const std::function<bool()>& holds, double patience_s = kPatienceS) {
    const double until = seconds_now() + patience_s;
    for (;;) {
        if (holds()) return true;
        if (seconds_now() > until) return false;
        sleep_s(0.005);
    }
}

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Proportional set size, MiB; 0 if the process is gone.
inline double pss_mib(pid_t pid) {
    std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string word; rollup >> word;) {
        double kib = 0;
        if (word == "Pss:" && rollup >> kib) return kib / 1024;
    }
    return 0;
}

class Process {
public:
    Process() = default;
    Process(std::vector<std::string> command, const std::map<std::string, std::string>& environment, std::string output,
            unsigned uid = 0)
        : output_(std::move(output)) {
        pid_ = ::fork();
        if (pid_ != 0) return;
        const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::dup2(nothing, STDIN_FILENO);
        ::dup2(file, STDOUT_FILENO);
        ::dup2(file, STDERR_FILENO);
        for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        if (uid != 0 && (::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(126);
        std::vector<char*> arguments;
        for (std::string& word : command) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}
    Process& operator=(Process&& other) noexcept {
        end();
        pid_ = std::exchange(other.pid_, -1);
        output_ = std::move(other.output_);
        return *this;
    }
    ~Process() { end(); }

    pid_t pid() const { return pid_; }
    void signal(int number) const { ::kill(pid_, number); }
    std::string output() const { return text_of(output_); }

    /// The exit status, 128 + n if a signal ended it, -1 if it did not end in time.
    int wait(double patience_s = kPatienceS) {
        int status = 0;
        if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, patience_s)) return -1;
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    bool runs() const {
        siginfo_t ended{};
        return pid_ > 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               ended.si_pid == 0;
    }

    /// Kills it and what it has started.
    void end() {
        if (pid_ <= 0) return;
        const std::vector<pid_t> below = descendants_of(pid_);
        ::kill(pid_, SIGKILL);
        for (const pid_t pid : below) ::kill(pid, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

private:
    static std::vector<pid_t> descendants_of(pid_t pid) {
        std::vector<pid_t> found = {pid};
        std::error_code error;
        std::vector<std::pair<pid_t, pid_t>> parents;
        for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
            const auto process = parse_integer(entry.path().filename().string());
            if (process) parents.emplace_back(static_cast<pid_t>(*process), os::parent_of(static_cast<int>(*process)));
        }
        for (std::size_t i = 0; i < found.size(); ++i) {
            for (const auto& [child, parent] : parents) {
                if (parent == found[i]) found.push_back(child);
            }
        }
        found.erase(found.begin());
        return found;
    }

    pid_t pid_ = -1;
    std::string output_;
};

/// The services that were started with such a text in their arguments.
inline std::vector<pid_t> services_with(const std::string& text) {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const auto pid = parse_integer(entry.path().filename().string());
        const std::string command = pid ? text_of(entry.path().string() + "/cmdline") : "";
        const std::string program = command.substr(0, command.find('\0'));
        if (program.ends_with("/salusd") && command.find(text) != std::string::npos)
            found.push_back(static_cast<pid_t>(*pid));
    }
    return found;
}

/// A job that was killed may have been about to start one.
inline bool end_services_with(const std::string& text) {
    return eventually([&] {
        const std::vector<pid_t> found = services_with(text);
        for (const pid_t pid : found) ::kill(pid, SIGKILL);
        return found.empty();
    });
}

/// A directory, a service in it, and its jobs. Everything ends with the test.
class Machine {
public:
    explicit Machine(std::vector<std::string> options = {}, bool start = true) : options_(std::move(options)) {
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-test-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        ::chmod(directory_.c_str(), 0755);
        std::filesystem::create_directory(path("run"));
        ::chmod(path("run").c_str(), 0755);
        if (start) start_service();
    }
    virtual ~Machine() {
        jobs_.clear();
        service_.end();
        end_services_with(directory_ + "/");
        std::error_code error;
        if (!::testing::Test::HasFailure() && !std::getenv("SALUS_TEST_KEEP"))
            std::filesystem::remove_all(directory_, error);
        else std::fprintf(stderr, "left for you to look at: %s\n%s\n", directory_.c_str(), log().c_str());
    }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void start_service() {
        std::vector<std::string> command = {SALUSD_BINARY, "--config", "/dev/null", "--socket",
                                            socket(),      "--state",  state()};
        command.insert(command.end(), options_.begin(), options_.end());
        // Most tests on a GPU are about turns, and small programs would soon run at once.
        const auto has = [&](const char* word) { return std::ranges::find(options_, word) != options_.end(); };
        if (has("cuda") && !has("--overlap")) command.insert(command.end(), {"--overlap", "off"});
        service_ = Process(command, environment(), path("salusd-" + std::to_string(services_++) + ".log"));
        ASSERT_TRUE(eventually([&] { return os::connect_to(socket()).ok(); })) << service_.output();
    }
    Process& service() { return service_; }

    std::string path(const std::string& name) const { return directory_ + "/" + name; }
    /// Where a user's own service listens: jobs start one if none runs.
    std::string socket() const { return path("run/salus/socket"); }
    std::string state() const { return path("state"); }
    std::string log() const {
        std::string all;
        for (int i = 0; i < services_; ++i) all += text_of(path("salusd-" + std::to_string(i) + ".log"));
        return all;
    }
    std::map<std::string, std::string> environment() const {
        std::map<std::string, std::string> all = also;
        all.insert({{"XDG_RUNTIME_DIR", path("run")},
                    {"SALUS_SOCKET", socket()},
                    {"SALUS_STATE", state()},
                    {"SALUS_PAGE_DIR", directory_}});
        return all;
    }
    /// All that run, whoever started them.
    std::vector<pid_t> services() const { return services_with(directory_ + "/"); }

    /// salus-job with these options; it is owned here, and the reference holds until the test ends.
    Process& job(const std::string& name, std::vector<std::string> options,
                 const std::map<std::string, std::string>& extra = {}) {
        std::vector<std::string> command = {SALUS_JOB_BINARY, "--name", name, "--report", path(name + ".json")};
        command.insert(command.end(), options.begin(), options.end());
        auto all = environment();
        for (const auto& [key, value] : extra) all[key] = value;
        jobs_.push_back(std::make_unique<Process>(command, all, path(name + ".out")));
        return *jobs_.back();
    }
    Process salus(std::vector<std::string> arguments, unsigned uid = 0) {
        arguments.insert(arguments.begin(), SALUS_BINARY);
        return Process(arguments, environment(), path("salus-" + std::to_string(commands_++) + ".out"), uid);
    }
    nlohmann::json report(const std::string& name) const {
        return nlohmann::json::parse(text_of(path(name + ".json")), nullptr, false);
    }

    nlohmann::json status() const {
        const Result<std::string> answer = cli::ask_service(socket(), wire::AskStatus{});
        return answer ? nlohmann::json::parse(answer.value(), nullptr, false) : nlohmann::json();
    }
    /// Its row of the status; empty if there is none.
    nlohmann::json row(const std::string& name) const {
        const nlohmann::json all = status();
        if (!all.is_object()) return nlohmann::json::object();
        for (const nlohmann::json& job : all["jobs"]) {
            if (job.value("name", "") == name) return job;
        }
        return nlohmann::json::object();
    }
    std::uint64_t iterations(const std::string& name) const { return row(name).value("iterations", std::uint64_t{0}); }
    std::string state_of(const std::string& name) const { return row(name).value("state", ""); }
    /// It has run so many iterations more than now.
    bool goes_on(const std::string& name, std::uint64_t more = 5) const {
        const std::uint64_t from = iterations(name);
        return eventually([&] { return iterations(name) >= from + more; });
    }

    std::map<std::string, std::string> also;  ///< in the environment of all that is started

private:
    std::vector<std::string> options_;
    std::string directory_;
    Process service_;
    int services_ = 0;
    int commands_ = 0;
    std::vector<std::unique_ptr<Process>> jobs_;
};

}  // namespace salus::test
