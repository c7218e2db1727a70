// A CUDA program that does one odd thing, for the tests of the shim: salus-shim-odd MODE. Most of them print one number.
//
// Those that sleep have launched once, and leave something behind that never comes to an end by itself.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace {

using Address = std::uint64_t;
using Handle = void*;

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(Handle*, int);
int cuCtxSetCurrent(Handle);
int cuCtxSynchronize();
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
int cuStreamCreate(Handle*, unsigned);
int cuStreamSynchronize(Handle);
int cuStreamDestroy_v2(Handle);
int cuStreamBeginCapture_v2(Handle, int);
int cuLaunchHostFunc(Handle, void (*)(void*), void*);
int cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr unsigned kSleepS = 30;

Handle context = nullptr, add = nullptr;
Address memory = 0;

void start() {
    Handle module = nullptr;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) std::exit(3);
    if (cuModuleLoadData(&module, "add") || cuModuleGetFunction(&add, module, "add")) std::exit(3);
}
void start_with_memory() {
    start();
    if (cuMemAlloc_v2(&memory, kMiB)) std::exit(3);
}
int launch(Handle stream, Address at = memory) {
    std::uint64_t count = 1;
    std::uint32_t one = 1, microseconds = 100;
    void* parameters[] = {&at, &count, &one, &microseconds};
    return cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}
Handle new_stream() {
    Handle stream = nullptr;
    if (cuStreamCreate(&stream, 1)) std::exit(3);
    return stream;
}
void sleep_long() {
    std::puts("sleeps");
    std::fflush(stdout);
    ::sleep(kSleepS);
}

/// A stream that was destroyed cannot be asked how far it has come.
void destroyed() {
    start_with_memory();
    Handle const stream = new_stream();
    launch(stream);
    cuStreamSynchronize(stream);
    cuStreamDestroy_v2(stream);
    sleep_long();
}

/// Every call fails from now on.
void fault() {
    start_with_memory();
    launch(nullptr, 0x1000);
    cuCtxSynchronize();
    sleep_long();
}

/// A stream that captures cannot be asked either.
void capture() {
    start_with_memory();
    Handle const stream = new_stream();
    cuStreamBeginCapture_v2(stream, 2);
    launch(stream);
    launch(new_stream());
    sleep_long();
}

/// What the device has to do ends only after launches that are still to come.
void host_waits() {
    static std::mutex mutex;
    static std::condition_variable changed;
    static bool goes_on = false;
    start_with_memory();
    Handle const stream = new_stream();
    const auto wait = [](void*) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return goes_on; });
    };
    cuLaunchHostFunc(stream, wait, nullptr);
    int failed = 0;
    for (int i = 0; i < 10; ++i) failed += launch(stream) != 0;
    {
        const std::lock_guard lock(mutex);
        goes_on = true;
    }
    changed.notify_all();
    std::printf("%d\n", failed + cuCtxSynchronize());
}

/// Two processes, each of whose work waits on the device for what the other launches. One of them runs far ahead, until its
/// launches block; the other takes its time.
void partners() {
    constexpr int kRounds = 1500;
    struct Shared {
        std::atomic<int> done[2];
    };
    static int me = 0;
    static Shared* shared = nullptr;
    shared =
        static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t child = ::fork();
    me = child == 0 ? 1 : 0;
    start_with_memory();
    Handle const stream = new_stream();
    const auto meet = [](void*) {
        const int mine = ++shared->done[me];
        while (shared->done[1 - me] < mine) ::usleep(20);
    };
    int failed = 0;
    for (int i = 0; i < kRounds; ++i) {
        failed += launch(stream) != 0;
        if (cuLaunchHostFunc(stream, meet, nullptr)) std::exit(3);
        if (me == 1) ::usleep(300);
    }
    failed += cuCtxSynchronize();
    if (child == 0) std::exit(failed);
    int status = -1;
    ::waitpid(child, &status, 0);
    std::printf("%d\n", failed + status);
}

/// A launch that blocks: its stream is full of work that waits for something else.
void stuck() {
    start_with_memory();
    Handle const stream = new_stream();
    launch(stream);
    cuLaunchHostFunc(
        stream, [](void*) { ::sleep(kSleepS); }, nullptr);
    std::puts("sleeps");
    std::fflush(stdout);
    for (int i = 0; i < 2000; ++i) launch(stream);
}

/// MiB that pitched allocations hold when the next one fails.
void pitched() {
    start();
    Address at = 0;
    std::size_t pitch = 0, held = 0;
    while (cuMemAllocPitch_v2(&at, &pitch, 1, 1 << 14, 4) == 0) held += pitch << 14;
    std::printf("%zu\n", held / kMiB);
}

/// MiB held when an allocation fails, of memory that could not be freed: its thread had no context.
void not_freed() {
    start();
    Address at = 0;
    std::size_t held = 0;
    for (; held < 1024 && cuMemAlloc_v2(&at, 8 * kMiB) == 0; held += 8) {
        std::thread([&] { cuMemFree_v2(at); }).join();
    }
    std::printf("%zu\n", held);
}

/// Rounds in which a context that is destroyed with its memory leaves room for the next one's.
void contexts() {
    cuInit(0);
    int rounds = 0;
    for (; rounds < 5; ++rounds) {
        Handle own = nullptr;
        Address at = 0;
        if (cuCtxCreate_v2(&own, 0, 0) || cuMemAlloc_v2(&at, 20 * kMiB)) break;
        cuCtxDestroy_v2(own);
    }
    std::printf("%d\n", rounds);
}

/// MiB that are mapped, their handles released, when no more can be made.
void mapped() {
    start();
    struct {
        int type = 1, handles = 0, place = 1, device = 0;
        void* metadata = nullptr;
        unsigned char flags[8] = {};
    } properties;
    std::size_t held = 0;
    for (; held < 1024; held += 8) {
        std::uint64_t handle = 0;
        Address at = 0;
        if (cuMemCreate(&handle, 8 * kMiB, &properties, 0)) break;
        if (cuMemAddressReserve(&at, 8 * kMiB, 0, 0, 0) || cuMemMap(at, 8 * kMiB, 0, handle, 0)) std::exit(3);
        cuMemRelease(handle);
    }
    std::printf("%zu\n", held);
}

/// MiB in all, before anything is allocated.
void asks_first() {
    start();
    std::size_t free = 0, total = 0;
    cuMemGetInfo_v2(&free, &total);
    std::printf("%zu\n", total / kMiB);
}

struct Mode {
    const char* name;
    void (*run)();
};
constexpr Mode kModes[] = {{"destroyed", destroyed},   {"fault", fault},          {"capture", capture},
                           {"host-waits", host_waits}, {"partners", partners},    {"stuck", stuck},
                           {"pitched", pitched},       {"not-freed", not_freed},  {"contexts", contexts},
                           {"mapped", mapped},         {"asks-first", asks_first}};

}  // namespace

int main(int argc, char** argv) {
    for (const Mode& mode : kModes) {
        if (argc == 2 && std::strcmp(argv[1], mode.name) == 0) {
            mode.run();
            return 0;
        }
    }
    return 2;
}
