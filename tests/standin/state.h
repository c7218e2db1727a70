// A stand-in for libcuda.so.1 over the host's memory, so that what Salus does with a GPU's runs where there is none, with
// real processes. As strict as the driver: what that refuses is refused, what that does later is done later.
//
//   SALUS_STANDIN_STATE    the file in which processes share the accounting (accounting.h has the other settings). A file
//                          of this name with .lost-N behind it: the GPU N has fallen off the bus
//   SALUS_STANDIN_LATENCY  how long a copy takes, in microseconds, or 200: who does not wait for it is found out
//   SALUS_STANDIN_QUEUE    how many items a stream's queue holds, or 1024: a call that adds one more waits
//   SALUS_STANDIN_REUSE    1: contexts and memory get the handles of those that are gone, before the call that ended these
//                          has returned
//   SALUS_STANDIN_FAIL     "cuMemCreate:5" or "cuMemCreate:5+": the fifth call is out of memory; ... and all after it
//
// This header is what the parts share: the state, how a call enters, the queues.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/driver.h"
#include "tests/standin/accounting.h"
#include "tests/standin/extras.h"

namespace salus::standin {

using namespace device::cuda;

#define SALUS_STANDIN_ALL_FUNCTIONS(X) \
    SALUS_CUDA_FUNCTIONS(X) SALUS_CUDA_OPTIONAL_FUNCTIONS(X) SALUS_STANDIN_FUNCTIONS(X) SALUS_STANDIN_DRIVER_FUNCTIONS(X)

// The driver's symbols under the names of Driver's members: a definition with other parameters does not compile.
#define SALUS_STANDIN_DECLARE(member, symbol, parameters) extern "C" Status member parameters __asm__(symbol);
SALUS_STANDIN_ALL_FUNCTIONS(SALUS_STANDIN_DECLARE)
#undef SALUS_STANDIN_DECLARE

enum class Call {
#define SALUS_STANDIN_NAME(member, symbol, parameters) member,
    SALUS_STANDIN_ALL_FUNCTIONS(SALUS_STANDIN_NAME)
#undef SALUS_STANDIN_NAME
};

inline constexpr Status kInvalidValue = 1, kNotInitialised = 3, kNoDevice = 100, kInvalidDevice = 101;
inline constexpr Status kInvalidImage = 200, kOperatingSystem = 304, kIllegalState = 401, kNotFound = 500;
inline constexpr Status kIllegalAddress = 700, kAlreadyRegistered = 712, kNotRegistered = 713, kNotSupported = 801;
inline constexpr Status kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureMerge = 902, kCaptureUnmatched = 903;
inline constexpr Status kCaptureUnjoined = 904, kCaptureIsolation = 905, kCaptureImplicit = 906, kCapturedEvent = 907;
inline constexpr Status kCaptureWrongThread = 908, kUnknown = 999;

// --- contexts and memory

/// Never destroyed, since a thread may have it current: it is only no longer alive.
struct DeviceContext {
    int device;
    int retained = 0;  ///< how often, if it is a primary one
    std::optional<Row> row = {};

    bool is_alive() const { return row.has_value(); }
};

/// An allocation, as one handle and its mappings hold it.
struct Memory {
    int descriptor;
    std::uint64_t size;
    bool exportable;
    Row row;

    Memory(int descriptor_, std::uint64_t size_, bool exportable_, Row row_)
        : descriptor(descriptor_), size(size_), exportable(exportable_), row(row_) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();
};
struct Mapping {
    std::shared_ptr<Memory> memory;
    int access = PROT_NONE;
    DeviceContext* owner = nullptr;  ///< if it is a block of cuMemAlloc or the like
    bool is_leaving = false;         ///< a stream will free it
};
/// The host's, registered: it is as long as its context is.
struct HostMemory {
    std::uint64_t size;
    DeviceContext* context;
};

// --- work

using Clock = std::chrono::steady_clock;
struct Record {
    bool is_done = false;
    Clock::time_point at = {};
};
struct Range {
    Address start;
    std::uint64_t size;
};
/// A piece of work for the device: a kernel, a copy, a record.
struct Step {
    std::vector<Range> touches = {};
    std::shared_ptr<Record> awaited = {};
    std::function<bool()> is_ready = {};  ///< it waits for a value in memory; looked at again and again
    std::chrono::microseconds duration{0};
    bool starts_when_queued = false;  ///< not when those before it are done
    std::optional<Clock::time_point> started = {};
    std::function<bool()> run;        ///< false: it touched what is not mapped
    std::function<void()> host = {};  ///< instead: a function of the program's, which must call nothing of the driver's
};
/// An item of a queue. That of a graph has a step for each of its nodes.
struct Work {
    std::uint64_t order;
    std::vector<Step> steps;
    std::size_t next = 0;
};
/// What streams gather instead of running it.
struct Capture {
    int mode;
    std::thread::id thread;
    Stream origin;
    bool is_over = false, is_invalid = false;
    std::vector<Step> steps = {};
    std::set<Stream> unjoined = {};  ///< forked streams with work for which the origin has not waited
};
struct Queue {
    Stream stream;
    DeviceContext* context;
    bool is_default = false, is_of_thread = false, is_blocking = true, is_destroyed = false;
    int held = 0, told_capturing = 0;
    std::shared_ptr<Capture> capture = {};
    std::size_t captured = 0;  ///< steps in this capture
    std::deque<Work> work = {};
};
struct EventState {
    DeviceContext* context;
    bool has_time, was_recorded = false;
    std::shared_ptr<Record> record;
    std::shared_ptr<Capture> capture = {};  ///< in which it was recorded last
    Stream captured_on = nullptr;
    std::size_t captured_at = 0;
};

struct LoadedModule {
    DeviceContext* context;
    std::string kernel;
};
struct GraphState {
    DeviceContext* context;
    std::vector<Step> steps;
};

// Note [Two locks]
// The driver's lock is held by whoever is in a call, also while that waits for room in a full queue: then everybody else's
// calls wait, too, as with the real driver. Calls that wait for work to be done let go of it. The state's mutex guards the
// data below; the worker takes that alone, so that it can empty a full queue. Who takes both takes the driver's first.
struct State {
    std::mutex driver_lock;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<DeviceContext> primary_contexts;  ///< of the visible devices
    std::deque<DeviceContext> other_contexts;
    std::map<Handle, std::shared_ptr<Memory>> handles;
    std::map<Address, std::uint64_t> reservations;
    std::map<Address, Mapping> mappings;
    std::map<Address, HostMemory> registered;
    std::map<Stream, Queue> queues;  ///< a context's default stream under the context
    std::map<std::pair<DeviceContext*, std::thread::id>, Stream> streams_of_threads;
    std::map<Event, EventState> events;
    std::map<Module, LoadedModule> modules;
    std::map<Kernel, Module> kernels;
    std::map<Graph, GraphState> graphs;
    std::map<RunnableGraph, GraphState> runnable_graphs;
    std::vector<std::shared_ptr<Capture>> captures;  ///< that go on
    std::uint64_t last_handle = 0x5a1d0000;          ///< none is ever used again ...
    std::set<Handle> released;                       ///< ... but these, if handles are reused
    std::uint64_t last_order = 0;
    bool is_dead = false;
};
/// Never destroyed: the worker goes on until the process has ended.
extern State& state;
extern std::atomic<int> initialised_in;

struct Entered;
void* new_handle();
bool reuses_handles();
/// Of a call that has made a handle free: lets others get it before the caller hears of it.
void let_others_reuse(Entered& entered);
/// That of the calling thread; nothing if it has none.
DeviceContext* current();
/// Nothing for a device that there is none of.
DeviceContext* context_of(Ordinal device);

// --- how a call enters

enum class Needs { kNothing, kInitialised, kContext };
enum class Locks { kBoth, kStateAlone };

/// What every call begins with; it holds the locks as long as it lives.
struct Entered {
    std::unique_lock<std::mutex> driver, lock;
    Status status = kSuccess;

    Entered(Call call, Needs needs, Locks locks = Locks::kBoth);
};
#define SALUS_STANDIN_ENTER(member, ...)               \
    Entered entered(Call::member, Needs::__VA_ARGS__); \
    if (entered.status != kSuccess) return entered.status
#define SALUS_STANDIN_REQUIRE(condition) \
    if (!(condition)) return kInvalidValue
#define SALUS_STANDIN_TRY(call) \
    if (const Status tried = (call); tried != kSuccess) return tried

/// The queue of a stream, for a call that adds to it or asks for it.
#define SALUS_STANDIN_FIND(queue, stream) \
    Queue* queue = nullptr;               \
    SALUS_STANDIN_TRY(find_queue(stream, &queue))

// --- memory (mappings.cpp, blocks.cpp, host_memory.cpp, copies.cpp)

inline std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(address); }
/// Whether it is memory of the host that the device may use, and that need not be copied at the call.
bool is_registered(Address start, std::uint64_t size);
bool may_access(Address start, std::uint64_t size, int access);
/// Charged; nothing if there is no room.
std::shared_ptr<Memory> create_memory(int device, std::uint64_t size, bool exportable);
std::optional<Address> reserve_addresses(std::uint64_t size, std::uint64_t alignment, Address hint);
bool show(Address start, const Memory& memory, int protection);
/// REQUIRES: it is one.
void free_block(Address start);
/// Takes that long, then fills a range with a byte.
Step fill_step(Address start, std::size_t size, unsigned char value, unsigned microseconds);

// --- queues (queues.cpp) and the worker (worker.cpp)

inline constexpr std::uintptr_t kStreamLegacy = 1, kStreamPerThread = 2;

/// While it lives the null stream is the calling thread's own.
struct PerThreadFlavour {
    PerThreadFlavour();
    ~PerThreadFlavour();
    PerThreadFlavour(const PerThreadFlavour&) = delete;
    PerThreadFlavour& operator=(const PerThreadFlavour&) = delete;
};

/// A stream's queue; nothing for what is none.
Queue* queue_of(Stream stream);
/// ... or an error, also if a capture forbids its use.
Status find_queue(Stream stream, Queue** queue);
/// Adds an item, or captures it. Waits for room, with the driver's lock held.
Status submit(Entered& entered, Queue& queue, std::vector<Step> steps);
Status submit(Entered& entered, Queue& queue, Step step);
Step make_record(const std::shared_ptr<Record>& record);
/// Adds one, whether or not there is room.
std::shared_ptr<Record> enqueue_record(Queue& queue);
/// Lets go of the driver's lock.
Status wait_for(Entered& entered, const std::shared_ptr<Record>& record);
/// Takes the driver's lock again.
void reenter(Entered& entered);
/// Waits for everything in a context but what is being captured.
Status drain(Entered& entered, const DeviceContext& context);
/// By what is queued.
bool is_touched(Address start, std::uint64_t size);
/// The device is dead to this process, as a real one after an illegal access. With SALUS_STANDIN_EXPLAIN it says
/// why, and who called.
void break_down(const char* why, Range range);
[[noreturn]] void work_for_ever();

// --- captures (captures.cpp)

/// REQUIRES: the queue captures.
Status capture(Queue& queue, std::vector<Step> steps);
Status capture_record(Queue& queue, EventState& event);
/// REQUIRES: the queue captures, or the event was recorded in a capture.
Status capture_wait(Queue& queue, const EventState& event);
void finish_capture(const std::shared_ptr<Capture>& capture);
/// Whether a queue is the default stream, and one that waits for it captures.
bool has_implicit_dependency(const Queue& queue);
// Errors of calls that a capture forbids, and that make it invalid.
Status refuse_implicit_dependency(const Queue& queue);
Status refuse_unsafe();  ///< of a call that might wait for what is captured
Status refuse_capturing(Queue& queue);
Status refuse_wait(Queue& queue);  ///< both
Status refuse_captured(const EventState& event);
/// As drain(), unless a stream captures.
Status synchronize(Entered& entered, const DeviceContext& context);

}  // namespace salus::standin
