// The stand-in GPU in processes of their own, for tests: what is initialised, or broken, stays so for a process's life.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "device/cuda/driver.h"
#include "tests/standin/extras.h"

namespace salus::test {

/// The stand-in's functions: the driver's, and its own.
struct Standin : device::cuda::Driver {
    using Status = device::cuda::Status;
    using Ordinal = device::cuda::Ordinal;
    using Context = device::cuda::Context;
    using Stream = device::cuda::Stream;
    using Event = device::cuda::Event;
    using Address = device::cuda::Address;
    using Module = device::cuda::Module;
    using Kernel = device::cuda::Kernel;
    using Graph = device::cuda::Graph;
    using RunnableGraph = device::cuda::RunnableGraph;
    using LaunchConfiguration = device::cuda::LaunchConfiguration;
#define SALUS_STANDIN_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
    SALUS_STANDIN_FUNCTIONS(SALUS_STANDIN_MEMBER)
    SALUS_STANDIN_DRIVER_FUNCTIONS(SALUS_STANDIN_MEMBER)
#undef SALUS_STANDIN_MEMBER

    /// Loads it into this process. By path: what is looked for by name from then on is this.
    static Standin load() {
        Standin standin;
        void* library = ::dlopen(SALUS_STANDIN_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        EXPECT_TRUE(library && ::dlopen(SALUS_STANDIN_DIR "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) << ::dlerror();
#define SALUS_STANDIN_LOOK_UP(member, symbol, parameters)                                                      \
    standin.member = reinterpret_cast<decltype(standin.member)>(library ? ::dlsym(library, symbol) : nullptr); \
    EXPECT_TRUE(standin.member) << symbol;
        SALUS_CUDA_FUNCTIONS(SALUS_STANDIN_LOOK_UP)
        SALUS_CUDA_OPTIONAL_FUNCTIONS(SALUS_STANDIN_LOOK_UP)
        SALUS_STANDIN_FUNCTIONS(SALUS_STANDIN_LOOK_UP)
        SALUS_STANDIN_DRIVER_FUNCTIONS(SALUS_STANDIN_LOOK_UP)
#undef SALUS_STANDIN_LOOK_UP
        return standin;
    }
    /// ... and makes its first GPU current.
    static Standin start() {
        Standin standin = load();
        device::cuda::Context context = nullptr;
        EXPECT_EQ(standin.init(0), 0);
        EXPECT_EQ(standin.retain_primary_context(&context, 0), 0);
        EXPECT_EQ(standin.set_current(context), 0);
        return standin;
    }
};

/// A link between a test and a process of it.
class Line {
public:
    explicit Line(int socket) : socket_(socket) {}
    void say(int value = 0) const { EXPECT_EQ(::send(socket_, &value, sizeof value, MSG_NOSIGNAL), ssize_t{sizeof value}); }
    int hear() const {
        int value = -1;
        EXPECT_EQ(::recv(socket_, &value, sizeof value, MSG_WAITALL), ssize_t{sizeof value}) << "the other one has ended";
        return value;
    }

    int descriptor() const { return socket_; }

private:
    int socket_;
};

using Environment = std::map<std::string, std::string>;

/// A forked process that runs a part of a test; what fails there fails the test.
class Part {
public:
    Part(const Environment& environment, const std::function<void(const Line&)>& run) {
        int sockets[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        std::fflush(nullptr);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(sockets[0]);
            ::unsetenv("CUDA_VISIBLE_DEVICES");
            for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
            run(Line(sockets[1]));
            std::fflush(nullptr);
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        ::close(sockets[1]);
        socket_ = sockets[0];
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() {
        ::close(socket_);
        if (pid_ <= 0) return;
        EXPECT_EQ(status(), 0) << "see what it printed above";
    }

    pid_t pid() const { return pid_; }
    Line line() const { return Line(socket_); }
    /// Killed, and not yet reaped: its memory is free all the same.
    void kill() const {
        siginfo_t ended{};
        ::kill(pid_, SIGKILL);
        ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
    }
    int status() {
        int status = -1;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return status;
    }

private:
    pid_t pid_ = -1;
    int socket_ = -1;
};

/// The accounting of a test's processes, in a file of its own.
class StandinTest : public ::testing::Test {
protected:
    StandinTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-standin-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        environment["SALUS_STANDIN_STATE"] = (directory_ / "state").string();
    }
    ~StandinTest() override { std::filesystem::remove_all(directory_); }

    /// Runs a part alone, to its end.
    void in_process(const std::function<void()>& run) const {
        Part(environment, [&](const Line&) { run(); });
    }

    Environment environment;

private:
    std::filesystem::path directory_;
};

}  // namespace salus::test
