// A CUDA program that knows nothing of Salus, for the tests of the shim: it finds the driver in one of the ways that
// programs do, allocates, launches, and says what it saw in one line of JSON.
//
//   salus-shim-program WAY [--launches N | --seconds S] [--us MICROSECONDS] [--mib MIB] [--streams N] [--threads N]
//                          [--pause-us N] [--graph] [--fork] [--exchange] [--beat FILE]
//
// With --beat it waits for each launch, and counts in this file (8 bytes, in its own order) those that are done.
// Further threads have a stream and a sum of their own, which they check.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using Status = int;
using Address = std::uint64_t;
using Handle = void*;

// Each row: the symbol, the name without version and flavour, whether there is a per-thread flavour, parameters.
#define PROGRAM_FUNCTIONS(X)                                                                                   \
    X(cuInit, "cuInit", (unsigned))                                                                            \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                            \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Handle*, int))                                    \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (Handle))                                                            \
    X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                \
    X(cuModuleLoadData, "cuModuleLoadData", (Handle*, const void*))                                            \
    X(cuModuleGetFunction, "cuModuleGetFunction", (Handle*, Handle, const char*))                              \
    X(cuMemAlloc_v2, "cuMemAlloc", (Address*, std::size_t))                                                    \
    X(cuMemFree_v2, "cuMemFree", (Address))                                                                    \
    X(cuMemGetInfo_v2, "cuMemGetInfo", (std::size_t*, std::size_t*))                                           \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", (void*, Address, int, unsigned long long)) \
    X(cuMemsetD8_v2, "cuMemsetD8", (Address, unsigned char, std::size_t))                                      \
    X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", (void*, Address, std::size_t))                                          \
    X(cuStreamCreate, "cuStreamCreate", (Handle*, unsigned))                                                   \
    X(cuStreamSynchronize, "cuStreamSynchronize", (Handle))                                                    \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", (Handle, int))                                          \
    X(cuStreamEndCapture, "cuStreamEndCapture", (Handle, Handle*))                                             \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (Handle*, Handle, unsigned long long))       \
    X(cuGraphLaunch, "cuGraphLaunch", (Handle, Handle))                                                        \
    X(cuLaunchKernel, "cuLaunchKernel",                                                                        \
      (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**))

#define DECLARE(symbol, name, parameters) extern "C" Status symbol parameters;
PROGRAM_FUNCTIONS(DECLARE)

struct Api {
#define MEMBER(symbol, name, parameters) Status(*symbol) parameters = nullptr;
    PROGRAM_FUNCTIONS(MEMBER)
};

[[noreturn]] void fail(const char* what, int status) {
    std::fprintf(stderr, "%s: %d\n", what, status);
    std::exit(3);
}
#define DO(call) \
    if (const Status status = api.call; status != 0) fail(#call, status)

Api by_symbol() {
    Api api;
#define TAKE(symbol, name, parameters) api.symbol = ::symbol;
    PROGRAM_FUNCTIONS(TAKE)
    return api;
}

Api by_dlsym(void* library) {
    Api api;
#define LOOK_UP(symbol, name, parameters) api.symbol = reinterpret_cast<decltype(api.symbol)>(::dlsym(library, #symbol));
    PROGRAM_FUNCTIONS(LOOK_UP)
    return api;
}

/// `flags`: 0 legacy, 2 per thread. `version` of cuGetProcAddress itself: 1 or 2.
Api by_resolver(void* library, std::uint64_t flags, int version) {
    Api api;
    using First = Status (*)(const char*, void**, int, std::uint64_t);
    using Second = Status (*)(const char*, void**, int, std::uint64_t, int*);
    void* const found = ::dlsym(library, version == 1 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    if (!found) fail("cuGetProcAddress", -1);
    // Runtimes ask the resolver for itself, and use what it gives.
    void* resolver = nullptr;
    const auto ask = [&](void* with, const char* name, void** function) {
        int result = -1;
        return version == 1 ? reinterpret_cast<First>(with)(name, function, 11040, flags)
                            : reinterpret_cast<Second>(with)(name, function, 12000, flags, &result);
    };
    if (const Status status = ask(found, "cuGetProcAddress", &resolver); status != 0) fail("cuGetProcAddress", status);
#define RESOLVE(symbol, name, parameters) \
    if (const Status status = ask(resolver, name, reinterpret_cast<void**>(&api.symbol)); status != 0) fail(name, status);
    PROGRAM_FUNCTIONS(RESOLVE)
    return api;
}

Api find(const std::string& way) {
    if (way == "symbol") return by_symbol();
    if (way == "default") return by_dlsym(RTLD_DEFAULT);
    if (way == "main") return by_dlsym(::dlopen(nullptr, RTLD_NOW));
    const int mode = RTLD_NOW | (way == "deepbind" ? RTLD_DEEPBIND : 0);
    const char* name = "libcuda.so.1";
    std::string path;
    if (way == "path") {  // of the library that is there, under its full name
        Dl_info info{};
        void* const loaded = ::dlopen(name, RTLD_NOW);
        void* const init = loaded ? ::dlvsym(loaded, "cuDriverGetVersion", "NONE") : nullptr;
        ::dladdr(init ? init : reinterpret_cast<void*>(&::cuDeviceGetCount), &info);
        path = info.dli_fname;
        name = path.c_str();
    }
    void* const library = way == "dlmopen" ? ::dlmopen(LM_ID_NEWLM, name, RTLD_NOW) : ::dlopen(name, mode);
    if (!library) fail(::dlerror(), -1);
    if (way == "resolver") return by_resolver(library, 0, 2);
    if (way == "resolver-v1") return by_resolver(library, 0, 1);
    if (way == "per-thread") return by_resolver(library, 2, 2);
    return by_dlsym(library);  // dlsym, path, deepbind, dlmopen
}

const char* provider_of(void* function) {
    Dl_info info{};
    if (!::dladdr(function, &info) || !info.dli_fname) return "?";
    const char* const slash = std::strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

/// What CUDA forbids to a child of fork() must fail there, and end nobody.
template <typename Launch>
void errors_of_child(const Api& api, Address memory, const Launch& launch) {
    const pid_t pid = ::fork();
    int status = -1;
    if (pid == 0) {
        Address other = 0;
        std::size_t free = 0;
        int descriptor = -1;
        const Status errors[] = {api.cuMemAlloc_v2(&other, 4096), launch(), api.cuMemGetInfo_v2(&free, nullptr),
                                 api.cuMemExportToShareableHandle(&descriptor, 1, 1, 0), api.cuMemFree_v2(memory)};
        for (const Status error : errors) {
            if (error != 3) ::_exit(1);
        }
        std::exit(0);
    }
    ::waitpid(pid, &status, 0);
    if (status != 0) fail("a forked child", status);
}

/// The first bytes of the file, shared with whoever looks.
std::atomic<std::uint64_t>* counter_in(const char* path) {
    const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || ::ftruncate(file, sizeof(std::uint64_t)) != 0) fail(path, -1);
    void* const at = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail(path, -1);
    ::close(file);
    return static_cast<std::atomic<std::uint64_t>*>(at);
}

volatile sig_atomic_t interrupted = 0;

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    long launches = 100, microseconds = 0, mib = 4, streams = 1, pause_us = 0, seconds = 0, threads = 1;
    bool graph = false, forks = false, exchanges = false;
    std::atomic<std::uint64_t>* beat = nullptr;
    for (int i = 2; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--graph" || option == "--fork") {
            (option == "--graph" ? graph : forks) = true;
            continue;
        }
        if (option == "--exchange") {
            exchanges = true;
            continue;
        }
        if (option == "--beat" && i + 1 < argc) {
            beat = counter_in(argv[++i]);
            continue;
        }
        const long value = i + 1 < argc ? std::atol(argv[++i]) : 0;
        if (option == "--launches") launches = value;
        else if (option == "--us") microseconds = value;
        else if (option == "--mib") mib = value;
        else if (option == "--streams") streams = value;
        else if (option == "--threads") threads = value;
        else if (option == "--pause-us") pause_us = value;
        else if (option == "--seconds") seconds = value;
        else return 2;
    }
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, nullptr);

    const Api api = find(argv[1]);
    if (!api.cuLaunchKernel || !api.cuInit) fail("a function is missing", -1);
    DO(cuInit(0));
    Handle context = nullptr, module = nullptr, add = nullptr;
    DO(cuDevicePrimaryCtxRetain(&context, 0));
    DO(cuCtxSetCurrent(context));
    DO(cuModuleLoadData(&module, "add"));
    DO(cuModuleGetFunction(&add, module, "add"));
    Address memory = 0;
    const auto bytes = static_cast<std::size_t>(mib) << 20;
    if (const Status status = api.cuMemAlloc_v2(&memory, bytes); status != 0) {
        std::printf("{\"allocation\": %d}\n", status);
        return 4;
    }
    DO(cuMemsetD8_v2(memory, 0, 4096));
    DO(cuCtxSynchronize());  // streams that do not wait for the default stream may be used below
    std::vector<Handle> queues{nullptr};
    for (long i = 1; i < streams; ++i) {
        queues.push_back(nullptr);
        DO(cuStreamCreate(&queues.back(), 0));
    }
    const auto launch_at = [&](Address at, Handle stream) {
        std::uint64_t count = 1;
        std::uint32_t one = 1;
        auto duration = static_cast<unsigned>(microseconds);
        void* parameters[] = {&at, &count, &one, &duration};
        return api.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    };
    const auto launch = [&](Handle stream) { return launch_at(memory, stream); };
    Handle runnable = nullptr;
    if (graph) {
        Handle stream = nullptr, captured = nullptr;
        DO(cuStreamCreate(&stream, 1));
        DO(cuStreamBeginCapture_v2(stream, 2));
        for (int i = 0; i < 10; ++i) {
            if (const Status status = launch(stream); status != 0) fail("a captured launch", status);
        }
        DO(cuStreamEndCapture(stream, &captured));
        DO(cuGraphInstantiateWithFlags(&runnable, captured, 0));
        queues = {stream};
    }
    std::size_t free = 0, total = 0;
    DO(cuMemGetInfo_v2(&free, &total));
    DO(cuMemGetInfo_v2(nullptr, &total));

    if (exchanges) {  // to try is enough: who else has the memory is not known
        int descriptor = -1;
        static_cast<void>(api.cuMemExportToShareableHandle(&descriptor, memory, 1, 0));
    }

    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    std::atomic<long> by_others{0};
    std::vector<std::thread> others;
    for (long thread = 1; thread < threads; ++thread) {
        others.emplace_back([&, thread] {
            Handle stream = nullptr;
            DO(cuCtxSetCurrent(context));
            DO(cuStreamCreate(&stream, 1));
            const Address own = memory + static_cast<Address>(thread) * 64;
            long mine = 0;
            for (; seconds > 0 ? Clock::now() - start < std::chrono::seconds(seconds) : mine < launches; ++mine) {
                if (launch_at(own, stream) != 0) fail("a launch of a thread", 0);
                if (mine % 50 == 49) DO(cuStreamSynchronize(stream));
            }
            DO(cuStreamSynchronize(stream));
            std::uint32_t sum = 0;
            DO(cuMemcpyDtoH_v2(&sum, own, sizeof sum));
            if (sum != mine) fail("the sum of a thread", static_cast<int>(sum));
            by_others += mine;
        });
    }
    long done = 0;
    for (; seconds > 0 ? Clock::now() - start < std::chrono::seconds(seconds) : done < launches; ++done) {
        if (interrupted) break;
        Handle const stream = queues[static_cast<std::size_t>(done) % queues.size()];
        if (const Status status = graph ? api.cuGraphLaunch(runnable, stream) : launch(stream); status != 0)
            fail("a launch", status);
        if (beat) {
            DO(cuStreamSynchronize(stream));
            beat->fetch_add(1);
        }
        if (pause_us > 0) ::usleep(static_cast<useconds_t>(pause_us));
    }
    for (std::thread& thread : others) thread.join();
    if (forks) errors_of_child(api, memory, [&] { return launch(nullptr); });
    DO(cuCtxSynchronize());
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    std::uint32_t sum = 0;
    DO(cuMemcpyDtoH_v2(&sum, memory, sizeof sum));
    DO(cuMemFree_v2(memory));
    std::printf(
        "{\"way\": \"%s\", \"by_others\": %ld, \"launches\": %ld, \"sum\": %u, \"took_s\": %.4f, \"provider\": \"%s\", "
        "\"free_mib\": %zu, "
        "\"total_mib\": %zu, \"interrupted\": %d}\n",
        argv[1], by_others.load(), done, sum, took, provider_of(reinterpret_cast<void*>(api.cuLaunchKernel)), free >> 20,
        total >> 20, static_cast<int>(interrupted));
    return interrupted ? 130 : 0;
}
