// libsalus-cuda.so: stands between a program and libcuda.so.1. `salus run` preloads it where there is a GPU.
//
// Nothing happens before the real cuInit has succeeded. From then on the client library is told of launches and memory
// (link.h); while there is none, each function only calls the real one. The shim has no state beside that, starts no thread
// and needs nothing but libc.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "shim/dlsym.h"
#include "shim/entries.h"
#include "shim/link.h"
#include "shim/old_glibc.h"
#include "shim/real.h"

#define SALUS_SHIM_EXPORT __attribute__((visibility("default")))

namespace salus::shim {
namespace {

std::atomic<const ClientSide*> client{nullptr};
enum class Linking : int { kNotYet, kUnderWay, kDone };
std::atomic<Linking> linking{Linking::kNotYet};
std::atomic<bool> initialised{false};

/// For measurements: launches go to the real driver at once, uncounted.
std::atomic<bool> passed_by{false};
/// For tests: see Report.
std::atomic<bool> counts{false};
std::atomic<std::uint64_t> launches{0};
std::atomic<std::uint64_t> graph_launches{0};

/// Once a process: what is not as expected is said, and the program runs as without the shim.
void step_aside(const char* why) { ::fprintf(stderr, "salus: %s; the job runs without the shim\n", why); }

/// Where the client library is installed; nullptr: not known.
const char* library_beside_us(char* path, std::size_t size) {
    Dl_info us{};
    if (::dladdr(reinterpret_cast<const void*>(&step_aside), &us) == 0 || !us.dli_fname) return nullptr;
    const char* const slash = ::strrchr(us.dli_fname, '/');
    const int folder = slash ? static_cast<int>(slash - us.dli_fname) + 1 : 0;
    const int length = ::snprintf(path, size, "%.*slibsalus.so.1", folder, us.dli_fname);
    return length > 0 && static_cast<std::size_t>(length) < size ? path : nullptr;
}

void link_up() {
    const char* const socket = ::getenv("SALUS_SOCKET");
    const char* const named = ::getenv("SALUS_LIBRARY");
    const char* const disabled = ::getenv("SALUS_DISABLE");
    if (!socket || !*socket) return;
    char beside[4096];
    const char* const path = named && *named ? named : library_beside_us(beside, sizeof beside);
    if (!path) return;
    if (disabled && *disabled && !(disabled[0] == '0' && disabled[1] == '\0')) return;
    void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return step_aside("the client library cannot be loaded");
    const auto link = reinterpret_cast<LinkFunction>(real_dlsym()(library, kLinkFunction));
    const ClientSide* const theirs = link ? link(kLinkVersion) : nullptr;
    if (!theirs) return step_aside("the client library is of another version");
    client.store(theirs, std::memory_order_release);
}

/// The client library, once this process is linked with it. Other threads go on without while one links.
const ClientSide* linked() {
    if (const ClientSide* const there = client.load(std::memory_order_acquire)) return there;
    if (linking.load(std::memory_order_relaxed) != Linking::kNotYet || !initialised.load(std::memory_order_relaxed))
        return nullptr;
    Linking before = Linking::kNotYet;
    if (!linking.compare_exchange_strong(before, Linking::kUnderWay)) return nullptr;
    link_up();
    linking.store(Linking::kDone);
    return client.load(std::memory_order_acquire);
}

/// The same for what has to be counted: waits for the thread that links. Not for ever, since that one may need a lock of the
/// loader's that this one holds.
const ClientSide* linked_soon() {
    static std::atomic<int> patience_ms{1000};
    if (const ClientSide* const there = linked()) return there;
    while (linking.load() == Linking::kUnderWay && patience_ms.fetch_sub(1) > 0) ::usleep(1000);
    return client.load(std::memory_order_acquire);
}

/// A process that is to join by itself does so before the driver starts: it is told its device then, and waits for room.
void join_first() {
    const char* const job = ::getenv("SALUS_JOB");
    if (initialised.load(std::memory_order_relaxed) || (job && *job)) return;
    Linking before = Linking::kNotYet;
    if (!linking.compare_exchange_strong(before, Linking::kUnderWay)) return;
    link_up();
    linking.store(Linking::kDone);
    if (const ClientSide* const there = client.load(std::memory_order_acquire)) there->starts();
}

/// Around the real call of a launch.
class Launch {
public:
    Launch(Function function, Stream stream) {
        if (passed_by.load(std::memory_order_relaxed)) return;
        if (counts.load(std::memory_order_relaxed)) [[unlikely]]
            count(function);
        const ClientSide* const there = linked();
        if (!there || there->launches_wanted->load(std::memory_order_relaxed) == 0) return;
        client_ = there;
        client_->launch_begins(stream);
    }
    ~Launch() {
        if (client_) client_->launch_ends();
    }
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

private:
    static void count(Function function) {
        const bool is_graph = function == Function::cuGraphLaunch || function == Function::cuGraphLaunch_ptsz;
        (is_graph ? graph_launches : launches).fetch_add(1, std::memory_order_relaxed);
    }

    const ClientSide* client_ = nullptr;  ///< that has been told
};

Stream own(Stream stream) { return stream ? stream : kThreadsOwnStream; }
Stream stream_of(const LaunchConfig* config) { return config ? config->stream : nullptr; }

/// cuMemCreate makes host memory, too; CUmemAllocationProp begins with type, handle types, and the kind of place: 1 is a
/// GPU.
std::uint64_t size_on_device(std::size_t size, const void* properties) {
    return properties && static_cast<const int*>(properties)[2] == 1 ? size : 0;
}
std::uint64_t bytes_of_element(int format, unsigned channels) {
    const bool is_byte = format == 0x01 || format == 0x08, is_half = format == 0x02 || format == 0x09 || format == 0x10;
    return std::uint64_t{channels} * (is_byte ? 1 : is_half ? 2 : 4);
}
std::uint64_t at_least_one(std::size_t length) { return length > 0 ? length : 1; }
std::uint64_t bytes_of(const ArrayDescriptor* array) {
    if (!array) return 0;
    return bytes_of_element(array->format, array->channels) * array->width * at_least_one(array->height);
}
std::uint64_t bytes_of(const Array3DDescriptor* array) {
    if (!array) return 0;
    return bytes_of_element(array->format, array->channels) * array->width * at_least_one(array->height) *
           at_least_one(array->depth);
}

std::uint64_t bytes_of(std::size_t width, std::size_t height) {
    std::size_t bytes = 0;
    return __builtin_mul_overflow(width, height, &bytes) ? ~std::size_t{0} : bytes;
}

/// The real call of an allocation, within what the job may have. `name` is what names the memory afterwards.
template <typename Call, typename Name>
Status allocate(std::uint64_t bytes, const Call& call, const Name& name) {
    const ClientSide* const told = bytes > 0 ? linked_soon() : nullptr;
    if (told && !told->may_allocate(bytes)) return kOutOfMemory;
    const Status status = call();
    if (told && status == kSuccess) told->allocated(name(), bytes);
    else if (told) told->not_allocated(bytes);
    return status;
}

/// For tests: how many launches passed, at the end of the process.
struct Report {
    const char* const path = ::getenv("SALUS_SHIM_REPORT");

    Report() { counts.store(path != nullptr, std::memory_order_relaxed); }
    ~Report() {
        const std::uint64_t kernels = launches.load(), graphs = graph_launches.load();
        if (!path || kernels + graphs == 0) return;
        FILE* const file = ::fopen(path, "a");
        if (!file) return;
        ::fprintf(file, "pid %d kernels %llu graphs %llu\n", static_cast<int>(::getpid()),
                  static_cast<unsigned long long>(kernels), static_cast<unsigned long long>(graphs));
        ::fclose(file);
    }
};
Report report;

}  // namespace
}  // namespace salus::shim

/// The real function under its type, or what the driver says that has none.
#define SALUS_SHIM_REAL(symbol)                                                               \
    const auto real_function = reinterpret_cast<decltype(&::symbol)>(real(Function::symbol)); \
    if (!real_function) return kNotFound

extern "C" {

#define SALUS_SHIM_LAUNCH(symbol, stream_used, parameters, arguments) \
    SALUS_SHIM_EXPORT Status symbol parameters {                      \
        SALUS_SHIM_REAL(symbol);                                      \
        const Launch launch(Function::symbol, stream_used);           \
        return real_function arguments;                               \
    }
SALUS_SHIM_LAUNCHES(SALUS_SHIM_LAUNCH)

#define SALUS_SHIM_ALLOCATE(symbol, bytes, name, parameters, arguments)                           \
    SALUS_SHIM_EXPORT Status symbol parameters {                                                  \
        SALUS_SHIM_REAL(symbol);                                                                  \
        return allocate(                                                                          \
            bytes, [&] { return real_function arguments; }, [&] { return std::uint64_t{name}; }); \
    }
SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_ALLOCATE)

#define SALUS_SHIM_FREE(symbol, name, parameters, arguments)                              \
    SALUS_SHIM_EXPORT Status symbol parameters {                                          \
        SALUS_SHIM_REAL(symbol);                                                          \
        const ClientSide* const told = linked();                                          \
        const std::uint64_t bytes = told ? told->freeing(std::uint64_t{name}) : 0;        \
        const Status status = real_function arguments;                                    \
        if (bytes > 0 && status != kSuccess) told->not_freed(std::uint64_t{name}, bytes); \
        return status;                                                                    \
    }
SALUS_SHIM_FREES(SALUS_SHIM_FREE)

SALUS_SHIM_EXPORT Status cuMemAllocPitch_v2(Address* at, std::size_t* pitch, std::size_t width, std::size_t height,
                                            unsigned element) {
    SALUS_SHIM_REAL(cuMemAllocPitch_v2);
    const Status status = allocate(
        bytes_of(width, height), [&] { return real_function(at, pitch, width, height, element); }, [&] { return *at; });
    // Its rows are longer than was asked for, by what only the driver knows.
    const ClientSide* const told = linked();
    if (!told || status != kSuccess || *pitch <= width) return status;
    const std::uint64_t more = bytes_of(*pitch - width, height);
    if (told->may_allocate(more)) {
        told->allocated(*at, more);
        return status;
    }
    cuMemFree_v2(*at);
    return kOutOfMemory;
}

SALUS_SHIM_EXPORT Status cuMemMap(Address at, std::size_t size, std::size_t offset, Handle handle,
                                  unsigned long long flags) {
    SALUS_SHIM_REAL(cuMemMap);
    const Status status = real_function(at, size, offset, handle, flags);
    if (const ClientSide* const told = linked(); told && status == kSuccess) told->mapped(at, handle);
    return status;
}

SALUS_SHIM_EXPORT Status cuMemUnmap(Address at, std::size_t size) {
    SALUS_SHIM_REAL(cuMemUnmap);
    const Status status = real_function(at, size);
    if (const ClientSide* const told = linked(); told && status == kSuccess) told->unmapped(at, size);
    return status;
}

SALUS_SHIM_EXPORT Status cuStreamDestroy_v2(Stream stream) {
    SALUS_SHIM_REAL(cuStreamDestroy_v2);
    if (const ClientSide* const told = linked()) told->stream_ends(stream);
    return real_function(stream);
}

SALUS_SHIM_EXPORT Status cuCtxDestroy_v2(void* context) {
    SALUS_SHIM_REAL(cuCtxDestroy_v2);
    const ClientSide* const told = linked();
    const std::uint64_t ending = told ? told->context_ends(context) : 0;
    const Status status = real_function(context);
    if (told && status == kSuccess) told->context_ended(ending);
    else if (told) told->context_stays(ending);
    return status;
}

#define SALUS_SHIM_EXCHANGE(symbol, parameters, arguments)              \
    SALUS_SHIM_EXPORT Status symbol parameters {                        \
        SALUS_SHIM_REAL(symbol);                                        \
        if (const ClientSide* const told = linked()) told->exchanges(); \
        return real_function arguments;                                 \
    }
SALUS_SHIM_EXCHANGES(SALUS_SHIM_EXCHANGE)

SALUS_SHIM_EXPORT Status cuInit(unsigned flags) {
    const auto real_function = reinterpret_cast<decltype(&::cuInit)>(real(Function::cuInit));
    if (!real_function) return kNoDevice;
    join_first();
    const Status status = real_function(flags);
    if (status == kSuccess) initialised.store(true, std::memory_order_relaxed);
    return status;
}

SALUS_SHIM_EXPORT Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    SALUS_SHIM_REAL(cuMemGetInfo_v2);
    std::size_t free_now = 0, total_now = 0;  // either pointer may be null
    const Status status = real_function(&free_now, &total_now);
    if (status != kSuccess) return status;
    std::uint64_t free_told = free_now, total_told = total_now;
    if (const ClientSide* const told = linked()) told->memory_info(&free_told, &total_told);
    if (free) *free = free_told;
    if (total) *total = total_told;
    return status;
}

SALUS_SHIM_EXPORT Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
    SALUS_SHIM_REAL(cuGetProcAddress);
    const Status status = real_function(symbol, function, version, flags);
    if (status == kSuccess && function) *function = instead_of(*function);
    return status;
}

SALUS_SHIM_EXPORT Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags,
                                             int* found) {
    SALUS_SHIM_REAL(cuGetProcAddress_v2);
    const Status status = real_function(symbol, function, version, flags, found);
    if (status == kSuccess && function) *function = instead_of(*function);
    return status;
}

/// For the client library, which finds the real driver through this (device/cuda/driver.cpp).
SALUS_SHIM_EXPORT void* salus_shim_real(const char* symbol) { return real(symbol); }

/// For measurements (bench/gpu cost): from now on launches pass by the shim, or no longer.
SALUS_SHIM_EXPORT void salus_shim_pass_by(int yes) { passed_by.store(yes != 0, std::memory_order_relaxed); }

}  // extern "C"
