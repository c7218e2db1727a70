// The processes that a measurement starts, and the memory they share. Whatever happens, none of them is left behind.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace salus::bench {

/// Something that is no matter of speed: a process died, or waits for what never comes.
struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Set by a signal: then what was started is ended, and what was written removed.
inline volatile std::sig_atomic_t interrupted = 0;

/// CLOCK_MONOTONIC is the same in every process.
inline std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

inline void sleep_ms(long ms) {
    const timespec time{ms / 1000, ms % 1000 * 1'000'000};
    ::nanosleep(&time, nullptr);
}

/// A T in memory that is shared with all processes forked later.
template <typename T>
class Shared {
public:
    Shared() {
        void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED) throw Broken(std::string("no shared memory: ") + std::strerror(errno));
        shared_ = new (at) T;
    }
    ~Shared() { ::munmap(shared_, sizeof(T)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    T& operator*() const { return *shared_; }
    T* operator->() const { return shared_; }

private:
    T* shared_;
};

/// A child of ours. Killed when this goes away, and when we do.
class Process {
public:
    /// Runs `body` in a process of its own, which ends with what it returns, or with 1 if it throws.
    explicit Process(const std::function<int()>& body) {
        std::fflush(stdout);
        const pid_t parent = ::getpid();
        pid_ = ::fork();
        if (pid_ < 0) throw Broken(std::string("cannot fork: ") + std::strerror(errno));
        if (pid_ > 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        try {
            ::_exit(body());
        } catch (const std::exception& error) {
            std::fprintf(stderr, "pid %d: %s\n", ::getpid(), error.what());
            ::_exit(1);
        }
    }
    /// Runs a program; what it prints is appended to `log`.
    Process(const std::vector<std::string>& command, const std::string& log) : Process([&] { return exec(command, log); }) {}
    ~Process() { kill(); }
    Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_), usage_(other.usage_) {}
    Process& operator=(Process&&) = delete;

    pid_t pid() const { return pid_; }
    /// Of all its threads, once it has ended.
    double processor_seconds() const {
        const auto seconds = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
        };
        return seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
    }

    /// Whether it has ended. Throws if it did not end well.
    bool ended() {
        if (!status_) {
            int status = 0;
            if (::wait4(pid_, &status, WNOHANG, &usage_) == pid_) status_ = status;
        }
        if (!status_) return false;
        if (WIFSIGNALED(*status_)) throw Broken(named() + " died of signal " + std::to_string(WTERMSIG(*status_)));
        if (*status_ != 0) throw Broken(named() + " ended with status " + std::to_string(WEXITSTATUS(*status_)));
        return true;
    }
    void signal(int number) const {
        if (pid_ > 0 && !status_) ::kill(pid_, number);
    }
    void kill() {
        if (pid_ <= 0 || status_) return;
        ::kill(pid_, SIGKILL);
        int status = 0;
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
        status_ = status;
    }

private:
    static int exec(const std::vector<std::string>& command, const std::string& log) {
        const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0 || ::dup2(file, STDERR_FILENO) < 0) return 1;
        std::vector<char*> arguments;
        for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
        arguments.push_back(nullptr);
        ::execv(arguments[0], arguments.data());
        std::fprintf(stderr, "%s: %s\n", arguments[0], std::strerror(errno));
        return 127;
    }
    std::string named() const { return "process " + std::to_string(pid_); }

    pid_t pid_ = -1;
    std::optional<int> status_;
    rusage usage_{};
};

/// Until all have ended. `watch` is called now and then, and throws if they make no progress.
inline void wait_for(std::span<Process> processes, const std::function<void()>& watch) {
    for (;;) {
        bool all = true;
        for (Process& process : processes) all = process.ended() && all;
        if (all) return;
        if (interrupted) throw Broken("interrupted");
        watch();
        sleep_ms(20);
    }
}

/// Throws when the value has been the same for too long.
class Watchdog {
public:
    Watchdog(std::string what, std::int64_t patience_ns) : what_(std::move(what)), patience_ns_(patience_ns) {}
    void see(std::uint64_t value) {
        if (value != last_) {
            last_ = value;
            since_ = now_ns();
        }
        if (now_ns() - since_ > patience_ns_) throw Broken(what_ + ": no progress; a wake-up was lost?");
    }

private:
    std::string what_;
    std::int64_t patience_ns_;
    std::uint64_t last_ = UINT64_MAX;
    std::int64_t since_ = 0;
};

/// A directory of our own, gone with this.
class Scratch {
public:
    Scratch() {
        char path[] = "/tmp/salus-bench-XXXXXX";  // not $TMPDIR: the name of a socket must be short
        if (!::mkdtemp(path)) throw Broken(std::string(path) + ": " + std::strerror(errno));
        path_ = path;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    /// A name that was not used before.
    std::string fresh(const std::string& name) { return path_ + "/" + std::to_string(++count_) + name; }

private:
    std::string path_;
    int count_ = 0;
};

/// A service of our own: nobody else's jobs, socket, state or settings.
class Service {
public:
    Service(const std::string& salusd, Scratch& scratch, const std::vector<std::string>& options)
        : directory_(scratch.fresh("")), log_(directory_ + "/log") {
        std::filesystem::create_directory(directory_);
        std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
        ::setenv("XDG_CONFIG_HOME", directory_.c_str(), 1);
        std::vector<std::string> command{salusd,        "--socket", socket(), "--state", directory_ + "/state",
                                         "--log-level", "warning"};
        command.insert(command.end(), options.begin(), options.end());
        process_.emplace(command, log_);
        for (int i = 0; i < 1000 && !listens(); ++i) {
            if (gone()) throw Broken(salusd + " ends at once: " + said());
            sleep_ms(10);
        }
        if (!listens()) throw Broken(salusd + " does not listen");
        ::setenv("SALUS_SOCKET", socket().c_str(), 1);
    }
    ~Service() {
        process_->signal(SIGTERM);
        for (int i = 0; i < 200 && !gone(); ++i) sleep_ms(10);
    }
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    /// Throws if it is gone.
    void check() {
        if (gone()) throw Broken("salusd is gone: " + said());
    }
    /// Worth a look, no more: a client that it dropped without cause notices by itself.
    void show_warnings() const {
        if (const std::string warnings = said(); !warnings.empty()) std::printf("salusd said:\n%s", warnings.c_str());
    }
    const Process& process() const { return *process_; }

private:
    std::string socket() const { return directory_ + "/socket"; }
    bool gone() {
        try {
            return process_->ended();
        } catch (const Broken&) {
            return true;
        }
    }
    bool listens() const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
        const int probe = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        const bool ok = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        ::close(probe);
        return ok;
    }
    std::string said() const {
        std::string text(2000, '\0');
        std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(log_.c_str(), "r"), &std::fclose);
        text.resize(file ? std::fread(text.data(), 1, text.size(), file.get()) : 0);
        return text;
    }

    std::string directory_;
    std::string log_;
    std::optional<Process> process_;
};

}  // namespace salus::bench
