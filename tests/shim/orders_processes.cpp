// Actions that make processes: forks at every moment, exec in every form, and children that are killed.
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/shim/orders_processes.h"

extern char** environ;

namespace orders {
namespace {

constexpr int kDepth = 2;  ///< how many generations of children there are

int depth_of(const World& world) { return static_cast<int>(std::count(world.name.begin(), world.name.end(), '.')); }

std::string next_child(World& world) { return world.name + "." + std::to_string(++world.children); }

/// What becomes of the child, as the parent sees it.
void wait_for(const World& world, const char* what, pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status)) world.say("%s exited: %d", what, WEXITSTATUS(status));
    else world.say("%s ended by signal %d", what, WTERMSIG(status));
}

/// REQUIRES: this is a child. It may use the GPU if nobody before it has.
[[noreturn]] void live(World world, std::string name, std::uint64_t seed) {
    world.name = std::move(name);
    world.random = Random(seed);
    world.children = 0;
    world.parent_captures = world.keeps_turn();
    world.is_forked = true;
    if (world.random.once_in(3)) find_driver(world);
    if (world.random.below(3) > 0) set_up(world);
    act(world, 1 + world.random.below(5));
    end_process(world);
    std::exit(6);
}

void fork_child(World& world) {
    const std::string name = next_child(world);
    const std::uint64_t seed = world.random.next();
    const pid_t pid = ::fork();
    if (pid == 0) live(world, name, seed);
    wait_for(world, "child", pid);
}

void fork_in_thread(World& world) {
    if (!world.may_make_threads()) return;
    const std::string name = next_child(world);
    const std::uint64_t seed = world.random.next();
    std::thread([&] {
        const pid_t pid = ::fork();
        if (pid == 0) live(world, name, seed);
        wait_for(world, "child of a thread", pid);
    }).join();
}

/// Whatever locks the other thread held when the child was made, the child gets its answers.
void fork_beside_thread(World& world) {
    if (world.capturing.handle || kSanitized) return;
    std::atomic<bool> stop{false};
    const Driver& driver = world.driver;
    int count = 0;
    driver.cuDeviceGetCount(&count);  // what the stand-in does once in its life must not be under way in the fork
    std::thread busy([&] {
        driver.cuCtxSetCurrent(world.current);
        Handle const kernel = world.kernels.empty() ? nullptr : world.kernels.front().handle;
        while (!stop) {
            Address at = 0;
            driver.cuMemAlloc_v2(&at, 4096);
            world.launch_unseen(kernel, at);
            driver.cuMemFree_v2(at);
        }
    });
    for (int i = 0; i < 3; ++i) {
        ::usleep(static_cast<useconds_t>(world.random.below(500)));
        const std::string name = next_child(world);
        const pid_t pid = ::fork();
        if (pid == 0) {
            // That it may not use the GPU is sure only if somebody called cuInit before.
            world.name = name;
            Address at = 0;
            const Status counted = driver.cuDeviceGetCount(&count), made = driver.cuMemAlloc_v2(&at, 4096);
            const Status launched = world.launch(world.any_kernel(), at, nullptr, 0), freed = driver.cuMemFree_v2(0);
            world.say("beside a thread: %d %d %d %d, init %d", counted, made, launched, freed, driver.cuInit(0));
            if (i == 1) std::exit(7);
            ::_exit(8);
        }
        wait_for(world, "child", pid);
    }
    stop = true;
    busy.join();
}

/// The arguments of another program of the kind, for exec.
struct Command {
    std::string program, seed, name;
    std::vector<std::string> variables = {};
    std::vector<char*> arguments = {}, environment = {};

    Command(World& world, const std::string& name_) : seed(std::to_string(world.random.next() >> 16)), name(name_) {
        program = own_path(/*linked=*/world.random.once_in(2));
        arguments = {program.data(), seed.data(), name.data(), nullptr};
        const bool without_preload = world.random.once_in(3);
        for (char** variable = environ; *variable; ++variable) {
            if (!without_preload || std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
        }
        environment.push_back(nullptr);
    }
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    void exec() { ::execve(program.c_str(), arguments.data(), environment.data()); }
};

void exec_child(World& world) {
    if (world.keeps_turn()) return;
    Command command(world, next_child(world));
    const int how = world.random.below(3);
    pid_t pid = -1;
    if (how == 0) {
        if (::posix_spawn(&pid, command.program.c_str(), nullptr, nullptr, command.arguments.data(),
                          command.environment.data()) != 0)
            return world.say("posix_spawn failed");
    } else {
        pid = how == 1 ? ::vfork() : ::fork();
        if (pid == 0) {
            command.exec();
            ::_exit(127);
        }
    }
    wait_for(world, how == 0 ? "spawned" : how == 1 ? "vforked" : "forked", pid);
}

void exec_here(World& world) {
    if (world.keeps_turn() || world.random.below(3) > 0) return;
    world.say("exec");
    Command command(world, next_child(world));
    command.exec();
    world.say("exec failed");
}

/// It says nothing, computes without end, and is killed.
void kill_child(World& world) {
    int ends[2];
    if (::pipe(ends) != 0) return world.say("no pipe");
    const useconds_t patience = static_cast<useconds_t>(world.random.below(3000));
    const bool sets_up = world.random.once_in(2);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::close(STDOUT_FILENO);
        ::dup2(ends[1], STDOUT_FILENO);  // nobody reads what it says
        if (sets_up) set_up(world);
        else world.say("is there");
        const Address at = world.blocks.empty() ? 0 : world.blocks.front().at;
        for (;;) world.launch(world.any_kernel(), at, nullptr, 50);
    }
    char byte = 0;
    ::close(ends[1]);
    const bool is_there = ::read(ends[0], &byte, 1) == 1;
    ::usleep(patience);
    ::kill(pid, SIGKILL);
    wait_for(world, is_there ? "killed" : "killed early", pid);
    ::close(ends[0]);
}

constexpr Action kProcessActions[] = {
    {"fork", 4, fork_child},
    {"fork in thread", 2, fork_in_thread},
    {"fork beside thread", 2, fork_beside_thread},
    {"exec child", 4, exec_child},
    {"exec", 2, exec_here},
    {"kill", 2, kill_child},
};

/// A thread that launches until the process is gone.
void launch_for_ever(const World& world) {
    std::thread([world] {
        World own = world;
        own.driver.cuCtxSetCurrent(own.current);
        Address at = 0;
        own.driver.cuMemAlloc_v2(&at, 4096);
        for (;;) own.launch_unseen(own.any_kernel(), at);
    }).detach();
    ::usleep(300);
}

}  // namespace

std::span<const Action> process_actions() { return kProcessActions; }

void act(World& world, int count) {
    std::vector<Action> actions(gpu_actions().begin(), gpu_actions().end());
    if (depth_of(world) < kDepth) actions.insert(actions.end(), process_actions().begin(), process_actions().end());
    int all = 0;
    for (const Action& action : actions) all += action.weight;
    for (int i = 0; i < count; ++i) {
        int drawn = world.random.below(all);
        for (const Action& action : actions) {
            if ((drawn -= action.weight) >= 0) continue;
            action.act(world);
            break;
        }
    }
}

void end_process(World& world) {
    const int code = 10 + world.random.below(20), way = world.random.below(9);
    world.say("end %d", way);
    if (way >= 6 && !world.capturing.handle && world.random.once_in(2) && world.may_make_threads()) launch_for_ever(world);
    if (way == 0) ::raise(SIGKILL);
    if (way == 1) ::raise(SIGTERM);
    if (way == 2 || way == 6) ::_exit(code);
    if (way == 3 && world.may_make_threads()) {
        std::thread([code] { std::exit(code); }).detach();
        for (;;) ::pause();
    }
    if (way == 4 || way == 7) std::exit(code);
}

}  // namespace orders
