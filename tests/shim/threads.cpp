// A CUDA program whose threads launch without pause while another one does what disturbs them most, for the tests of the
// shim: salus-shim-threads MODE MILLISECONDS. It ends well if each thread's sum is right, and prints one number.
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "salus/salus.h"

namespace {

using Address = std::uint64_t;
using Handle = void*;

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(Handle*, int);
int cuCtxSetCurrent(Handle);
int cuCtxCreate_v2(Handle*, unsigned, int);
int cuCtxDestroy_v2(Handle);
int cuModuleLoadData(Handle*, const void*);
int cuModuleGetFunction(Handle*, Handle, const char*);
int cuMemAlloc_v2(Address*, std::size_t);
int cuMemAllocPitch_v2(Address*, std::size_t*, std::size_t, std::size_t, unsigned);
int cuMemFree_v2(Address);
int cuMemGetInfo_v2(std::size_t*, std::size_t*);
int cuMemCreate(std::uint64_t*, std::size_t, const void*, unsigned long long);
int cuMemRelease(std::uint64_t);
int cuMemAddressReserve(Address*, std::size_t, std::size_t, Address, unsigned long long);
int cuMemMap(Address, std::size_t, std::size_t, std::uint64_t, unsigned long long);
int cuMemUnmap(Address, std::size_t);
int cuMemsetD8_v2(Address, unsigned char, std::size_t);
int cuMemcpyDtoH_v2(void*, Address, std::size_t);
int cuStreamCreate(Handle*, unsigned);
int cuStreamSynchronize(Handle);
int cuStreamDestroy_v2(Handle);
int cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kThreads = 4;
constexpr int kNotInitialised = 3;

[[noreturn]] void fail(const char* what, long status) {
    std::fprintf(stderr, "%s: %ld\n", what, status);
    ::_exit(3);
}
void must(const char* what, int status) {
    if (status != 0) fail(what, status);
}
#define MUST(call) must(#call, call)

Handle context = nullptr, add = nullptr;
std::atomic<bool> time_is_up{false};
std::chrono::milliseconds time_given{};

void start() {
    Handle module = nullptr;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, "add"));
    MUST(cuModuleGetFunction(&add, module, "add"));
}

int launch(Handle kernel, Address at, Handle stream, unsigned microseconds = 20) {
    std::uint64_t count = 1;
    std::uint32_t one = 1;
    void* parameters[] = {&at, &count, &one, &microseconds};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

/// A thread's own stream and memory, with the sum of its launches.
class Launcher {
public:
    explicit Launcher(unsigned microseconds = 20) : microseconds_(microseconds) {
        MUST(cuCtxSetCurrent(context));
        MUST(cuStreamCreate(&stream_, 1));
        MUST(cuMemAlloc_v2(&at_, 4096));
        MUST(cuMemsetD8_v2(at_, 0, 4096));
        MUST(cuStreamSynchronize(nullptr));
    }
    void launch() {
        MUST(::launch(add, at_, stream_, microseconds_));
        ++launches_;
        if (launches_ % 50 == 0) MUST(cuStreamSynchronize(stream_));
    }
    /// Returns how many launches there were.
    long end() {
        std::uint32_t sum = 0;
        MUST(cuStreamSynchronize(stream_));
        MUST(cuMemcpyDtoH_v2(&sum, at_, sizeof sum));
        if (sum != launches_) fail("the sum of a thread", sum);
        MUST(cuStreamDestroy_v2(stream_));
        MUST(cuMemFree_v2(at_));
        return launches_;
    }

private:
    unsigned microseconds_;
    Handle stream_ = nullptr;
    Address at_ = 0;
    long launches_ = 0;
};

/// Threads that launch until time is up, while this one disturbs them. Returns their launches.
long launch_while(const std::function<void()>& disturb) {
    std::atomic<long> launches{0};
    std::atomic<int> at_work{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            Launcher launcher;
            launcher.launch();
            ++at_work;
            while (!time_is_up) launcher.launch();
            launches += launcher.end();
        });
    }
    while (at_work < kThreads) ::usleep(100);
    const auto until = std::chrono::steady_clock::now() + time_given;
    while (std::chrono::steady_clock::now() < until) disturb();
    time_is_up = true;
    for (std::thread& thread : threads) thread.join();
    return launches;
}

/// All threads find the driver and begin at once.
long first_calls() {
    std::barrier all(2 * kThreads);
    std::vector<std::thread> threads;
    std::atomic<long> launches{0};
    for (int i = 0; i < 2 * kThreads; ++i) {
        threads.emplace_back([&, i] {
            all.arrive_and_wait();
            void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
            const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(i % 2 == 0 ? library : RTLD_DEFAULT, "cuInit"));
            if (!init || init(0) != 0) fail("cuInit", i);
            Handle own = nullptr, module = nullptr, kernel = nullptr;
            Address at = 0;
            MUST(cuDevicePrimaryCtxRetain(&own, 0));
            MUST(cuCtxSetCurrent(own));
            MUST(cuModuleLoadData(&module, "add"));
            MUST(cuModuleGetFunction(&kernel, module, "add"));
            MUST(cuMemAlloc_v2(&at, 4096));
            for (int n = 0; n < 20; ++n) MUST(launch(kernel, at, nullptr));
            launches += 20;
            MUST(cuMemFree_v2(at));
            ::dlclose(library);
        });
    }
    for (std::thread& thread : threads) thread.join();
    return launches;
}

long reopen() {
    start();
    return launch_while([] {
        std::thread others[2];
        for (std::thread& other : others) {
            other = std::thread([] {
                void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY);
                using Resolve = int (*)(const char*, void**, int, std::uint64_t, int*);
                const auto resolve = reinterpret_cast<Resolve>(::dlsym(library, "cuGetProcAddress_v2"));
                void* found = nullptr;
                int result = -1;
                if (!resolve || resolve("cuLaunchKernel", &found, 12000, 0, &result) != 0) fail("cuGetProcAddress", result);
                if (found != reinterpret_cast<void*>(&cuLaunchKernel)) fail("another cuLaunchKernel", 0);
                if (::dlsym(library, "cuMemAlloc_v2") != reinterpret_cast<void*>(&cuMemAlloc_v2)) fail("dlsym", 0);
                ::dlclose(library);
            });
        }
        for (std::thread& other : others) other.join();
    });
}

/// What the children may not do fails; those that become another program may do it.
long fork_and_exec(const char* program) {
    start();
    int children = 0;
    Address memory = 0;
    MUST(cuMemAlloc_v2(&memory, 4096));
    launch_while([&] {
        const bool execs = children % 8 == 0;
        const pid_t pid = ::fork();
        if (pid == 0) {
            if (execs) ::execl(program, program, "once", "0", nullptr);
            std::size_t free = 0;
            const bool fails = launch(add, memory, nullptr) == kNotInitialised && cuMemGetInfo_v2(&free, &free) != 0 &&
                               cuMemFree_v2(memory) != 0 && cuMemAlloc_v2(&memory, 4096) != 0;
            if (children % 2 == 0) ::_exit(fails ? 0 : 1);
            std::exit(fails ? 0 : 1);
        }
        int status = -1;
        while (::waitpid(pid, &status, 0) < 0) {}
        if (status != 0) fail("a child", status);
        ++children;
    });
    return children;
}

long exec_here(const char* program) {
    start();
    launch_while([&] {
        ::usleep(static_cast<useconds_t>(time_given.count() * 1000));
        ::execl(program, program, "once", "0", nullptr);
    });
    return -1;
}

long launch_once() {
    start();
    Launcher launcher;
    for (int i = 0; i < 10; ++i) launcher.launch();
    return launcher.end();
}

/// Contexts come and go with what was launched in them by other threads, and is still in flight.
long contexts() {
    start();
    std::shared_mutex may_launch;
    Handle newest = nullptr, its_kernel = nullptr;
    std::vector<std::thread> guests;
    for (int i = 0; i < 2; ++i) {
        guests.emplace_back([&] {
            for (Handle before = nullptr; !time_is_up; ::usleep(100)) {
                const std::shared_lock lock(may_launch);
                Handle stream = nullptr;
                Address at = 0;
                if (!newest || std::exchange(before, newest) == newest) continue;
                MUST(cuCtxSetCurrent(newest));
                MUST(cuMemAlloc_v2(&at, kMiB));
                MUST(cuStreamCreate(&stream, 1));
                for (int n = 0; n < 5; ++n) MUST(launch(its_kernel, at, n % 2 == 0 ? stream : nullptr, 100));
            }
        });
    }
    int rounds = 0;
    launch_while([&] {
        Handle own = nullptr, module = nullptr, kernel = nullptr;
        MUST(cuCtxCreate_v2(&own, 0, 0));
        MUST(cuModuleLoadData(&module, "add"));
        MUST(cuModuleGetFunction(&kernel, module, "add"));
        {
            const std::lock_guard lock(may_launch);
            newest = own;
            its_kernel = kernel;
        }
        ::usleep(2000);
        const std::lock_guard lock(may_launch);
        newest = nullptr;
        MUST(cuCtxDestroy_v2(own));
        ++rounds;
    });
    for (std::thread& guest : guests) guest.join();
    return rounds;
}

struct AllocationProperties {
    int type = 1, handles = 0, place = 1, device = 0;
    void* metadata = nullptr;
    unsigned char flags[8] = {};
};

/// MiB that can still be had.
long count_free() {
    long mib = 0;
    for (Address at = 0; mib < 1024 && cuMemAlloc_v2(&at, kMiB) == 0;) ++mib;
    return mib;
}

/// Takes memory in every way, and gives all of it back.
void use_memory(unsigned draw) {
    const AllocationProperties properties;
    Address at = 0;
    std::size_t pitch = 0;
    std::uint64_t handle = 0;
    switch (draw % 4) {
        case 0:
            if (cuMemAlloc_v2(&at, 2 * kMiB) == 0) MUST(cuMemFree_v2(at));
            return;
        case 1:
            if (cuMemAllocPitch_v2(&at, &pitch, 100, 1000, 4) == 0) MUST(cuMemFree_v2(at));
            return;
        case 2:
            if (cuMemCreate(&handle, 2 * kMiB, &properties, 0) == 0) MUST(cuMemRelease(handle));
            return;
        default:
            if (cuMemCreate(&handle, 2 * kMiB, &properties, 0) != 0) return;
            MUST(cuMemAddressReserve(&at, 2 * kMiB, 0, 0, 0));
            MUST(cuMemMap(at, 2 * kMiB, 0, handle, 0));
            MUST(cuMemRelease(handle));
            MUST(cuMemUnmap(at, 2 * kMiB));
    }
}

/// MiB that can be had when all is given back: what --memory allows.
long memory() {
    start();
    std::vector<std::thread> users;
    for (int i = 0; i < kThreads; ++i) {
        users.emplace_back([i] {
            MUST(cuCtxSetCurrent(context));
            std::size_t free = 0, total = 0;
            for (unsigned n = 0; !time_is_up; ++n) {
                use_memory(n + static_cast<unsigned>(i));
                if (n % 16 == 0) MUST(cuMemGetInfo_v2(&free, &total));
            }
        });
    }
    launch_while([] { ::usleep(1000); });
    for (std::thread& user : users) user.join();
    return count_free();
}

/// MiB that can be had beside those that each thread keeps, in memory and contexts whose handles others had just before.
long handles() {
    start();
    std::vector<std::thread> users;
    for (int i = 0; i < kThreads; ++i) {
        users.emplace_back([] {
            const AllocationProperties properties;
            std::uint64_t handle = 0;
            for (int n = 0; n < 100; ++n) {
                Handle own = nullptr;
                Address at = 0;
                MUST(cuMemCreate(&handle, 2 * kMiB, &properties, 0));
                if (n % 25 != 0) MUST(cuMemRelease(handle));
                MUST(cuCtxCreate_v2(&own, 0, 0));
                MUST(cuMemAlloc_v2(&at, kMiB));
                if (n % 25 == 0) MUST(cuCtxSetCurrent(nullptr));
                else MUST(cuCtxDestroy_v2(own));
            }
        });
    }
    for (std::thread& user : users) user.join();
    return count_free();
}

/// An adaptor that attaches and detaches while others launch. Whether it takes turns by launches is seen after a second.
long detach() {
    start();
    void* const library = ::dlopen(std::getenv("SALUS_LIBRARY"), RTLD_NOW);
    if (!library) fail(::dlerror(), 0);
    const auto attach = reinterpret_cast<decltype(&::salus_attach)>(::dlsym(library, "salus_attach"));
    const auto detach = reinterpret_cast<decltype(&::salus_detach)>(::dlsym(library, "salus_detach"));
    salus_client* client = nullptr;
    int rounds = 0;
    if (attach(nullptr, &client) != SALUS_OK) fail("salus_attach", 0);  // before the shim does
    launch_while([&] {
        ::usleep(rounds % 4 == 3 ? 1'200'000 : static_cast<useconds_t>(1000 * (rounds % 7)));
        while (client && detach(client) != SALUS_OK) ::usleep(100);
        client = nullptr;
        // The service may be away; and the thread that launches may just have attached.
        if (attach(nullptr, &client) != SALUS_OK && client) {
            detach(client);
            client = nullptr;
        }
        ++rounds;
    });
    return rounds;
}

sigjmp_buf back_at_the_top;
std::atomic<bool> may_jump{false};

/// The thread waited for its turn: for a word that processes share. Elsewhere it may hold a lock of the driver's.
bool waited_for_turn(const mcontext_t& at) {
#if defined(__x86_64__)
    const auto result = at.gregs[REG_RAX], operation = at.gregs[REG_RSI];
#else
    const auto result = static_cast<long long>(at.regs[0]), operation = static_cast<long long>(at.regs[1]);
#endif
    return result == -EINTR && operation == FUTEX_WAIT;
}

/// Launches that wait for long are left by a jump out of a signal handler, as interpreters do.
long jump() {
    start();
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t*, void* at) {
        const bool jumps = may_jump && waited_for_turn(static_cast<const ucontext_t*>(at)->uc_mcontext);
        if (jumps && may_jump.exchange(false)) siglongjmp(back_at_the_top, 1);
    };
    ::sigaction(SIGUSR1, &action, nullptr);
    const auto main_thread = static_cast<pid_t>(::syscall(SYS_gettid));
    Handle stream = nullptr;
    Address at = 0;
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuMemAlloc_v2(&at, 4096));
    static std::atomic<std::uint64_t> launches;
    static std::atomic<int> jumps;
    std::thread watcher([main_thread] {
        std::uint64_t seen = ~std::uint64_t{0};
        for (int same = 0; !time_is_up; ::usleep(2000)) {
            const std::uint64_t now = launches;
            same = std::exchange(seen, now) == now ? same + 1 : 0;
            if (same > 10) ::syscall(SYS_tgkill, ::getpid(), main_thread, SIGUSR1);
        }
    });
    const auto until = std::chrono::steady_clock::now() + time_given;
    if (sigsetjmp(back_at_the_top, 1) != 0) ++jumps;
    while (std::chrono::steady_clock::now() < until) {
        may_jump = true;
        MUST(launch(add, at, stream, 200));
        may_jump = false;
        ++launches;
    }
    time_is_up = true;
    watcher.join();
    MUST(cuStreamSynchronize(stream));
    return jumps;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    char program[4096] = "";
    if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return 3;
    time_given = std::chrono::milliseconds(std::atol(argv[2]));
    const struct {
        const char* name;
        std::function<long()> run;
    } modes[] = {{"first-calls", first_calls},
                 {"reopen", reopen},
                 {"fork", [&] { return fork_and_exec(program); }},
                 {"exec", [&] { return exec_here(program); }},
                 {"once", launch_once},
                 {"contexts", contexts},
                 {"memory", memory},
                 {"handles", handles},
                 {"detach", detach},
                 {"jump", jump}};
    for (const auto& mode : modes) {
        if (std::strcmp(argv[1], mode.name) != 0) continue;
        std::printf("%ld\n", mode.run());
        return 0;
    }
    return 2;
}
