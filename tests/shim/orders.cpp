// Random orders of what a CUDA program and its children do: load the driver in one way or another, start it, fork, exec,
// launch, end. tests/shim/orders runs them without Salus and under it, and compares what they say.
//
//   salus-shim-orders SEED [NAME]                  one program; NAME is that of a process in the tree, "0" is the first
//   salus-shim-orders FIRST..LAST [LIMIT_S]        many, one after the other, each with its own processes
//
// There are two builds of it: salus-shim-orders-linked is linked with libcuda.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/shim/orders_processes.h"

namespace orders {
namespace {

constexpr const char* kLinkedSuffix = "-linked";
std::string this_program;  // without that suffix

/// One in so many programs links libcuda, or has a library of its user's preloaded.
constexpr std::uint64_t kLinked = 3, kPreloaded = 7;

int run_order(std::uint64_t seed, const char* name) {
    World world{.random = Random(seed), .name = name};
#ifdef ORDERS_LINKED
    world.is_global = true;
#endif
    find_driver(world);
    if (world.driver.count() == 0) return 3;
    const bool is_first = world.name == "0";
    // Some fork and exec before anything else.
    if (world.random.once_in(4)) act(world, 1 + world.random.below(3));
    if (world.random.below(10) > 0) set_up(world);
    act(world, (is_first ? 4 : 2) + world.random.below(is_first ? 12 : 5));
    end_process(world);
    return 30;
}

/// What the user has preloaded himself comes before the shim, as `salus run` has it.
void preload_users_library() {
    const char* const library = std::getenv("ORDERS_PRELOAD");
    const char* const others = std::getenv("LD_PRELOAD");
    if (library) ::setenv("LD_PRELOAD", (std::string(library) + (others ? std::string(":") + others : "")).c_str(), 1);
}

/// In a group of its own, so that a tree that hangs can be ended.
pid_t start(std::uint64_t seed, int output) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::setpgid(0, 0);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    if (seed % kPreloaded == 0) preload_users_library();
    const std::string program = own_path(seed % kLinked == 0);
    ::execl(program.c_str(), program.c_str(), std::to_string(seed).c_str(), "0", nullptr);
    ::_exit(127);
}

std::string end_of(pid_t pid, double limit_s) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(limit_s);
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
        if (Clock::now() > until) {
            ::kill(-pid, SIGKILL);
            ::waitpid(pid, &status, 0);
            return "hangs";
        }
        ::usleep(300);
    }
    ::kill(-pid, SIGKILL);  // nobody is left of it
    return WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status))
                             : "signal " + std::to_string(WTERMSIG(status));
}

void run_orders(std::uint64_t first, std::uint64_t last, double limit_s) {
    for (std::uint64_t seed = first; seed <= last; ++seed) {
        const int output = ::memfd_create("orders", MFD_CLOEXEC);
        const std::string end = end_of(start(seed, output), limit_s);
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
        char text[4096];
        ::lseek(output, 0, SEEK_SET);
        for (ssize_t size = 0; (size = ::read(output, text, sizeof text)) > 0;)
            std::fwrite(text, 1, static_cast<std::size_t>(size), stdout);
        std::printf("end %llu %s\n", static_cast<unsigned long long>(seed), end.c_str());
        std::fflush(stdout);
        ::close(output);
    }
}

}  // namespace

std::string own_path(bool linked) { return this_program + (linked ? kLinkedSuffix : ""); }

}  // namespace orders

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    char path[4096];
    const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
    if (size <= 0) return 2;
    orders::this_program.assign(path, static_cast<std::size_t>(size));
    if (orders::this_program.ends_with(orders::kLinkedSuffix))
        orders::this_program.resize(orders::this_program.size() - std::strlen(orders::kLinkedSuffix));
    char* dots = nullptr;
    const std::uint64_t first = std::strtoull(argv[1], &dots, 10);
    if (std::strncmp(dots, "..", 2) != 0) return orders::run_order(first, argc > 2 ? argv[2] : "0");
    orders::run_orders(first, std::strtoull(dots + 2, nullptr, 10), argc > 2 ? std::atof(argv[2]) : 20);
    return 0;
}
