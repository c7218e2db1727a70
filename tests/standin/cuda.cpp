// A stand-in for libcuda.so.1 over the host's memory, so that what Salus does with a GPU's runs where there is none, with
// real processes. As strict as the driver: what that refuses is refused, what that does later is done later.
//
//   SALUS_STANDIN_STATE    the file in which processes share the accounting (accounting.h has the other settings)
//   SALUS_STANDIN_LATENCY  how long a copy takes, in microseconds, or 200: who does not wait for it is found out
//   SALUS_STANDIN_FAIL     "cuMemCreate:5" or "cuMemCreate:5+": the fifth call is out of memory; ... and all after it
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/driver.h"
#include "tests/standin/accounting.h"
#include "tests/standin/extras.h"

namespace salus::standin {

using namespace device::cuda;

// The driver's symbols under the names of Driver's members: a definition below with other parameters does not compile.
#define SALUS_STANDIN_DECLARE(member, symbol, parameters) extern "C" Status member parameters __asm__(symbol);
SALUS_CUDA_FUNCTIONS(SALUS_STANDIN_DECLARE)
SALUS_STANDIN_FUNCTIONS(SALUS_STANDIN_DECLARE)
#undef SALUS_STANDIN_DECLARE

namespace {

constexpr Status kInvalidValue = 1, kNotInitialised = 3, kNoDevice = 100, kInvalidDevice = 101;
constexpr Status kOperatingSystem = 304, kIllegalAddress = 700, kNotSupported = 801;
constexpr Status kCaptureUnsupported = 900;
constexpr const char* kMemoryName = "salus-standin-";  // and the device

enum class Call {
#define SALUS_STANDIN_NAME(member, symbol, parameters) member,
    SALUS_CUDA_FUNCTIONS(SALUS_STANDIN_NAME) SALUS_STANDIN_FUNCTIONS(SALUS_STANDIN_NAME)
#undef SALUS_STANDIN_NAME
};
struct Function {
    const char* symbol;
    const void* itself;  ///< so that one without a definition does not link
};
const Function kFunctions[] = {
#define SALUS_STANDIN_FUNCTION(member, symbol, parameters) \
    {symbol, reinterpret_cast<const void*>(static_cast<Status(*) parameters>(member))},
    SALUS_CUDA_FUNCTIONS(SALUS_STANDIN_FUNCTION) SALUS_STANDIN_FUNCTIONS(SALUS_STANDIN_FUNCTION)
#undef SALUS_STANDIN_FUNCTION
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
    ~Memory() {
        ::close(descriptor);
        drop(row);
    }
};
struct Mapping {
    std::shared_ptr<Memory> memory;
    int access = PROT_NONE;
};
struct PrimaryContext {
    int device;
    bool is_retained = false;
};

using Clock = std::chrono::steady_clock;
struct Record {
    bool is_done = false;
};
struct Range {
    Address start;
    std::uint64_t size;
};
struct Work {
    std::uint64_t order = 0;
    std::vector<Range> touches = {};
    std::shared_ptr<Record> awaited = {};
    std::chrono::microseconds duration{0};
    std::optional<Clock::time_point> started = {};
    std::function<bool()> run;        ///< false: it touched what is not mapped
    std::function<void()> host = {};  ///< instead: a function of the program's, which must call nothing of the driver's
};
struct Queue {
    PrimaryContext* context;
    bool is_default = false, is_blocking = true, is_destroyed = false;
    int held = 0, capturing = 0;
    std::deque<Work> work = {};
};

struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<PrimaryContext> contexts;  ///< of the visible devices
    std::map<Handle, std::shared_ptr<Memory>> handles;
    std::map<Address, std::uint64_t> reservations;
    std::map<Address, Mapping> mappings;
    std::map<Stream, Queue> queues;  ///< a device's default stream under its context
    std::map<Event, std::shared_ptr<Record>> events;
    std::uint64_t last_handle = 0x5a1d0000;  ///< none is ever used again
    std::uint64_t last_order = 0;
    bool is_dead = false;
};
/// Never destroyed: the worker goes on until the process has ended.
State& state = *new State;
std::atomic<int> initialised_in = 0;
thread_local PrimaryContext* current = nullptr;

void* new_handle() { return reinterpret_cast<void*>(state.last_handle += 16); }

/// Whether this call of a function is one that SALUS_STANDIN_FAIL names.
bool is_to_fail(Call call) {
    static std::atomic<int> calls[std::size(kFunctions)];
    static const char* const wanted = std::getenv("SALUS_STANDIN_FAIL") ? ::strdup(std::getenv("SALUS_STANDIN_FAIL")) : "";
    const auto index = static_cast<std::size_t>(call);
    const int count = ++calls[index];
    std::istringstream list(wanted);
    for (std::string item; std::getline(list, item, ',');) {
        const std::size_t colon = item.find(':');
        if (colon == std::string::npos || item.substr(0, colon) != kFunctions[index].symbol) continue;
        const int first = std::atoi(item.c_str() + colon + 1);
        if (item.back() == '+' ? count >= first : count == first) return true;
    }
    return false;
}

enum class Needs { kNothing, kInitialised, kContext };

/// What every call begins with; it holds the lock as long as it lives.
struct Entered {
    std::unique_lock<std::mutex> lock;
    Status status = kSuccess;

    Entered(Call call, Needs needs) {
        const int initialised = initialised_in;
        const bool was_forked = initialised != 0 && initialised != ::getpid();
        if (is_to_fail(call)) status = kOutOfMemory;
        else if (was_forked || (needs != Needs::kNothing && initialised == 0)) status = kNotInitialised;
        if (status != kSuccess) return;  // in a child the lock may be held by a thread that is not there
        lock = std::unique_lock(state.mutex);
        if (needs != Needs::kNothing && state.is_dead) status = kIllegalAddress;
        else if (needs == Needs::kContext && !current) status = kInvalidContext;
    }
};
#define SALUS_STANDIN_ENTER(member, needs)       \
    Entered entered(Call::member, Needs::needs); \
    if (entered.status != kSuccess) return entered.status
#define SALUS_STANDIN_REQUIRE(condition) \
    if (!(condition)) return kInvalidValue

/// The devices that CUDA_VISIBLE_DEVICES leaves: those before the first that there is none of.
std::vector<int> visible_devices() {
    std::vector<int> all, visible;
    for (int device = 0; device < device_count(); ++device) all.push_back(device);
    const char* selection = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!selection) return all;
    std::istringstream list(selection);
    for (std::string item; std::getline(list, item, ',');) {
        const auto found = std::find_if(all.begin(), all.end(), [&](int device) {
            return item == std::to_string(device) || (item.size() > 4 && uuid_text(device).starts_with(item));
        });
        if (found == all.end()) break;
        visible.push_back(*found);
    }
    return visible;
}

PrimaryContext* context_of(Ordinal device) {
    const bool is_one = device >= 0 && static_cast<std::size_t>(device) < state.contexts.size();
    return is_one ? &state.contexts[static_cast<std::size_t>(device)] : nullptr;
}

// --- memory

std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(address); }

constexpr bool is_granular(std::uint64_t size) { return size > 0 && size % kGranularity == 0; }

/// Takes the descriptor, also when there is nothing.
std::shared_ptr<Memory> make_memory(int descriptor, int device, bool exportable, bool created) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0) {
        const auto size = static_cast<std::uint64_t>(status.st_size);
        if (const auto row = charge({device, status.st_ino, size, created}))
            return std::make_shared<Memory>(descriptor, size, exportable, *row);
    }
    ::close(descriptor);
    return nullptr;
}

/// The device whose memory a descriptor is; nothing if it is another file.
std::optional<int> device_of(int descriptor) {
    char target[128] = "";
    const std::string prefix = std::string("/memfd:") + kMemoryName;
    if (::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), target, sizeof target - 1) < 0) return {};
    if (std::strncmp(target, prefix.c_str(), prefix.size()) != 0) return {};
    return std::atoi(target + prefix.size());
}

/// The mappings that begin in a range.
std::pair<std::map<Address, Mapping>::iterator, std::map<Address, Mapping>::iterator> mappings_in(Address start,
                                                                                                  std::uint64_t size) {
    return {state.mappings.lower_bound(start), state.mappings.lower_bound(start + size)};
}
bool is_unmapped(Address start, std::uint64_t size) {
    auto [first, last] = mappings_in(start, size);
    if (first != last) return false;
    if (first == state.mappings.begin()) return true;
    --first;
    return first->first + first->second.memory->size <= start;
}
/// Whole mappings side by side, and nothing else.
bool is_mapped_whole(Address start, std::uint64_t size) {
    const auto [first, last] = mappings_in(start, size);
    Address at = start;
    for (auto mapping = first; mapping != last && mapping->first == at; ++mapping) at += mapping->second.memory->size;
    return size > 0 && at == start + size;
}
bool may_access(Address start, std::uint64_t size, int access) {
    auto mapping = state.mappings.upper_bound(start);
    if (mapping == state.mappings.begin()) return false;
    --mapping;
    Address at = mapping->first;
    for (; mapping != state.mappings.end() && mapping->first == at && at < start + size; ++mapping) {
        if (at += mapping->second.memory->size; at > start && (mapping->second.access & access) != access) return false;
    }
    return at >= start + size;
}
bool is_reserved(Address start, std::uint64_t size) {
    auto reservation = state.reservations.upper_bound(start);
    if (reservation == state.reservations.begin()) return false;
    --reservation;
    return start + size <= reservation->first + reservation->second;
}

/// The parts of a mapped range that were ever written to; the others are holes, and zero.
std::map<Address, Address> written_in(Address start, Address end) {
    std::map<Address, Address> parts;
    for (auto mapping = std::prev(state.mappings.upper_bound(start)); mapping != state.mappings.end(); ++mapping) {
        const auto [at, shown] = *mapping;
        if (at >= end) break;
        const int file = shown.memory->descriptor;
        const auto stop = static_cast<off_t>(std::min(end - at, shown.memory->size));
        for (auto from = static_cast<off_t>(std::max(start, at) - at); from < stop;) {
            const off_t data = ::lseek(file, from, SEEK_DATA);
            if (data < 0 || data >= stop) break;
            from = std::min(::lseek(file, data, SEEK_HOLE), stop);
            parts[at + static_cast<Address>(data)] = at + static_cast<Address>(from);
        }
    }
    return parts;
}

/// Holes stay holes: to copy them would cost a page, and a fault, for every 4 KiB. REQUIRES: both are mapped.
void copy(Address to, Address from, std::uint64_t size) {
    for (const auto& [start, end] : written_in(to, to + size)) std::memset(pointer(start), 0, end - start);
    for (const auto& [start, end] : written_in(from, from + size))
        std::memcpy(pointer(to + (start - from)), pointer(start), end - start);
}

bool put_back_reservation(Address start, std::uint64_t size) {
    return ::mmap(pointer(start), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

// --- work

/// A stream's queue; nothing for what is none. The two fixed handles are the default stream's, too.
Queue* queue_of(Stream stream) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
        const auto [at, is_new] = state.queues.try_emplace(current);
        if (is_new) at->second.context = current, at->second.is_default = true;
        return &at->second;
    }
    const auto found = state.queues.find(stream);
    return found == state.queues.end() || found->second.is_default || found->second.is_destroyed ? nullptr : &found->second;
}

void enqueue(Queue& queue, Work work) {
    work.order = ++state.last_order;
    queue.work.push_back(std::move(work));
    state.changed.notify_all();
}

std::shared_ptr<Record> enqueue_record(Queue& queue) {
    auto record = std::make_shared<Record>();
    enqueue(queue, {.run = [record] { return record->is_done = true; }});
    return record;
}

/// By what is queued.
bool is_touched(Address start, std::uint64_t size) {
    for (const auto& [stream, queue] : state.queues) {
        for (const Work& work : queue.work) {
            for (const Range& range : work.touches) {
                if (range.start < start + size && start < range.start + range.size) return true;
            }
        }
    }
    return false;
}

Status wait_for(Entered& entered, const std::shared_ptr<Record>& record) {
    state.changed.wait(entered.lock, [&] { return record->is_done || state.is_dead; });
    return record->is_done ? kSuccess : kIllegalAddress;
}

/// The default stream and the others, unless created as non-blocking, wait for what was queued before in each other.
bool is_its_turn(const Queue& queue, const Work& work) {
    if (work.awaited && !work.awaited->is_done) return false;
    return std::none_of(state.queues.begin(), state.queues.end(), [&](const auto& item) {
        const Queue& other = item.second;
        return &other != &queue && other.context == queue.context && (other.is_default || queue.is_default) &&
               other.is_blocking && queue.is_blocking && !other.work.empty() && other.work.front().order < work.order;
    });
}

/// The stream waits for it, and the driver's lock is not held: the function may wait for whoever is in a call.
std::optional<Clock::time_point> call_host(Queue& queue) {
    const std::function<void()> function = queue.work.front().host;
    state.mutex.unlock();
    function();
    state.mutex.lock();
    queue.work.pop_front();
    state.changed.notify_all();
    return std::nullopt;
}

/// Runs what can be run, a piece of each stream. When to look again, if nothing could.
std::optional<Clock::time_point> run_what_is_due() {
    std::optional<Clock::time_point> next;
    bool ran = false;
    for (auto at = state.queues.begin(); at != state.queues.end();) {
        Queue& queue = at->second;
        if (state.is_dead) queue.work.clear();
        if (queue.work.empty()) {
            at = queue.is_destroyed ? state.queues.erase(at) : std::next(at);
            continue;
        }
        ++at;
        Work& work = queue.work.front();
        if (queue.held || !is_its_turn(queue, work)) continue;
        const auto now = Clock::now();
        if (!work.started) work.started = now;
        const auto due = *work.started + work.duration;
        if (now < due) {
            next = next ? std::min(*next, due) : due;
            continue;
        }
        if (work.host) return call_host(queue);
        if (!work.run()) state.is_dead = true;
        queue.work.pop_front();
        ran = true;
    }
    if (!ran) return next ? *next : Clock::time_point::max();
    state.changed.notify_all();
    return std::nullopt;
}

[[noreturn]] void work_for_ever() {
    std::unique_lock lock(state.mutex);
    for (;;) {
        const auto next = run_what_is_due();
        if (!next) continue;
        if (*next == Clock::time_point::max()) state.changed.wait(lock);
        else state.changed.wait_until(lock, *next);
    }
}

std::chrono::microseconds latency() {
    const char* text = std::getenv("SALUS_STANDIN_LATENCY");
    return std::chrono::microseconds{text ? std::atoi(text) : 200};
}

}  // namespace

// --- the driver and its devices

Status init(unsigned flags) {
    SALUS_STANDIN_ENTER(init, kNothing);
    SALUS_STANDIN_REQUIRE(flags == 0);
    if (initialised_in != 0) return kSuccess;
    const std::vector<int> visible = visible_devices();
    if (visible.empty()) return kNoDevice;
    for (const int device : visible) state.contexts.push_back({device});
    start();
    std::thread(work_for_ever).detach();
    initialised_in = ::getpid();
    return kSuccess;
}

Status driver_version(int* version) {
    *version = 13000;
    return kSuccess;
}

Status error_name(Status status, const char** name) {
    static const auto& names = *new std::map<Status, const char*>{
        {kSuccess, "CUDA_SUCCESS"},
        {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
        {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
        {kNotInitialised, "CUDA_ERROR_NOT_INITIALIZED"},
        {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
        {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
        {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
        {kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM"},
        {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
        {kNotReady, "CUDA_ERROR_NOT_READY"},
        {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
        {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    };
    const auto found = names.find(status);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? kSuccess : kInvalidValue;
}

Status device_count(int* count) {
    SALUS_STANDIN_ENTER(device_count, kInitialised);
    *count = static_cast<int>(state.contexts.size());
    return kSuccess;
}

Status device_get(Ordinal* device, int ordinal) {
    SALUS_STANDIN_ENTER(device_get, kInitialised);
    if (!context_of(ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
}

Status device_name(char* name, int size, Ordinal device) {
    SALUS_STANDIN_ENTER(device_name, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    SALUS_STANDIN_REQUIRE(size > 0);
    name[std::string("Stand-in GPU").copy(name, static_cast<std::size_t>(size) - 1)] = '\0';
    return kSuccess;
}

Status device_uuid(Uuid* uuid, Ordinal device) {
    SALUS_STANDIN_ENTER(device_uuid, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    std::memcpy(uuid->bytes, uuid_of(context_of(device)->device).data(), sizeof uuid->bytes);
    return kSuccess;
}

Status device_total_memory(std::size_t* bytes, Ordinal device) {
    SALUS_STANDIN_ENTER(device_total_memory, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    *bytes = total_memory();
    return kSuccess;
}

Status device_attribute(int* value, int attribute, Ordinal device) {
    SALUS_STANDIN_ENTER(device_attribute, kInitialised);
    if (!context_of(device)) return kInvalidDevice;
    *value = attribute == kAttributeVirtualMemory || attribute == kAttributeDescriptorHandles;
    return kSuccess;
}

Status retain_primary_context(Context* context, Ordinal device) {
    SALUS_STANDIN_ENTER(retain_primary_context, kInitialised);
    PrimaryContext* const primary = context_of(device);
    if (!primary) return kInvalidDevice;
    if (!primary->is_retained && !charge({primary->device, 0, context_cost(), true})) return kOutOfMemory;
    primary->is_retained = true;
    *context = primary;
    return kSuccess;
}

Status get_current(Context* context) {
    SALUS_STANDIN_ENTER(get_current, kInitialised);
    *context = current;
    return kSuccess;
}

Status set_current(Context context) {
    SALUS_STANDIN_ENTER(set_current, kInitialised);
    const auto found = std::find_if(state.contexts.begin(), state.contexts.end(),
                                    [&](const auto& primary) { return &primary == context && primary.is_retained; });
    if (context && found == state.contexts.end()) return kInvalidContext;
    current = static_cast<PrimaryContext*>(context);
    return kSuccess;
}

// --- memory

Status memory_info(std::size_t* free, std::size_t* total) {
    SALUS_STANDIN_ENTER(memory_info, kContext);
    *total = total_memory();
    const std::uint64_t used = usage(current->device).used;
    *free = *total > used ? *total - used : 0;
    return kSuccess;
}

Status memory_granularity(std::size_t* granularity, const AllocationProperties* properties, int option) {
    SALUS_STANDIN_ENTER(memory_granularity, kInitialised);
    SALUS_STANDIN_REQUIRE(properties && properties->location.type == 1 && (option == 0 || option == 1));
    if (!context_of(properties->location.id)) return kInvalidDevice;
    *granularity = kGranularity;
    return kSuccess;
}

Status memory_create(Handle* handle, std::size_t size, const AllocationProperties* properties, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_create, kInitialised);
    SALUS_STANDIN_REQUIRE(is_granular(size) && flags == 0 && properties && properties->type == 1);
    SALUS_STANDIN_REQUIRE(properties->location.type == 1 && (properties->requested_handle_types & ~1) == 0);
    const PrimaryContext* const context = context_of(properties->location.id);
    if (!context) return kInvalidDevice;
    const int descriptor = ::memfd_create((kMemoryName + std::to_string(context->device)).c_str(), MFD_CLOEXEC);
    if (descriptor < 0) return kOperatingSystem;
    if (::ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
        ::close(descriptor);
        return kOutOfMemory;
    }
    auto memory =
        make_memory(descriptor, context->device, properties->requested_handle_types == kHandleTypeDescriptor, true);
    if (!memory) return kOutOfMemory;
    *handle = reinterpret_cast<Handle>(new_handle());
    state.handles[*handle] = std::move(memory);
    return kSuccess;
}

Status memory_release(Handle handle) {
    SALUS_STANDIN_ENTER(memory_release, kInitialised);
    return state.handles.erase(handle) == 1 ? kSuccess : kInvalidValue;
}

Status memory_export(void* descriptor, Handle handle, int type, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_export, kInitialised);
    const auto found = state.handles.find(handle);
    SALUS_STANDIN_REQUIRE(found != state.handles.end() && found->second->exportable);
    SALUS_STANDIN_REQUIRE(descriptor && type == kHandleTypeDescriptor && flags == 0);
    const int copy = ::fcntl(found->second->descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return kOperatingSystem;
    *static_cast<int*>(descriptor) = copy;
    return kSuccess;
}

Status memory_import(Handle* handle, void* descriptor, int type) {
    SALUS_STANDIN_ENTER(memory_import, kInitialised);
    const int theirs = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
    const auto device = device_of(theirs);
    SALUS_STANDIN_REQUIRE(type == kHandleTypeDescriptor && device);
    const bool is_visible = std::any_of(state.contexts.begin(), state.contexts.end(),
                                        [&](const PrimaryContext& context) { return context.device == *device; });
    if (!is_visible) return kInvalidDevice;
    const int ours = ::fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    if (ours < 0) return kOperatingSystem;
    auto memory = make_memory(ours, *device, true, false);
    if (!memory) return kOperatingSystem;
    *handle = reinterpret_cast<Handle>(new_handle());
    state.handles[*handle] = std::move(memory);
    return kSuccess;
}

Status address_reserve(Address* start, std::size_t size, std::size_t alignment, Address hint, unsigned long long flags) {
    SALUS_STANDIN_ENTER(address_reserve, kInitialised);
    SALUS_STANDIN_REQUIRE(is_granular(size) && (alignment & (alignment - 1)) == 0 && flags == 0);
    alignment = std::max<std::size_t>(alignment, kGranularity);
    // More than is needed, of which the aligned part stays.
    const std::size_t taken = size + alignment;
    void* const place = hint % alignment == 0 ? pointer(hint) : nullptr;
    void* const mapped = ::mmap(place, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return kOutOfMemory;
    const auto from = reinterpret_cast<Address>(mapped);
    *start = (from + alignment - 1) / alignment * alignment;
    if (*start > from) ::munmap(mapped, *start - from);
    ::munmap(pointer(*start + size), from + taken - (*start + size));
    state.reservations[*start] = size;
    return kSuccess;
}

Status address_free(Address start, std::size_t size) {
    SALUS_STANDIN_ENTER(address_free, kInitialised);
    const auto found = state.reservations.find(start);
    SALUS_STANDIN_REQUIRE(found != state.reservations.end() && found->second == size && is_unmapped(start, size));
    ::munmap(pointer(start), size);
    state.reservations.erase(found);
    return kSuccess;
}

Status memory_map(Address start, std::size_t size, std::size_t offset, Handle handle, unsigned long long flags) {
    SALUS_STANDIN_ENTER(memory_map, kContext);
    const auto found = state.handles.find(handle);
    SALUS_STANDIN_REQUIRE(found != state.handles.end() && flags == 0 && size > 0);
    SALUS_STANDIN_REQUIRE(start % kGranularity == 0 && is_reserved(start, size) && is_unmapped(start, size));
    if (offset != 0) return kNotSupported;
    SALUS_STANDIN_REQUIRE(size == found->second->size);
    state.mappings[start].memory = found->second;
    return kSuccess;
}

Status memory_unmap(Address start, std::size_t size) {
    SALUS_STANDIN_ENTER(memory_unmap, kInitialised);
    SALUS_STANDIN_REQUIRE(is_mapped_whole(start, size));
    if (!put_back_reservation(start, size)) return kOperatingSystem;
    const auto [first, last] = mappings_in(start, size);
    state.mappings.erase(first, last);
    // It may run at this very moment.
    if (is_touched(start, size)) state.is_dead = true;
    return kSuccess;
}

Status memory_set_access(Address start, std::size_t size, const AccessDescription* access, std::size_t count) {
    SALUS_STANDIN_ENTER(memory_set_access, kContext);
    SALUS_STANDIN_REQUIRE(access && count == 1 && access->location.type == 1 && is_mapped_whole(start, size));
    SALUS_STANDIN_REQUIRE(access->flags == 0 || access->flags == 1 || access->flags == 3);
    if (!context_of(access->location.id)) return kInvalidDevice;
    const int protection = access->flags == 0 ? PROT_NONE : access->flags == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
    const auto [first, last] = mappings_in(start, size);
    for (auto mapping = first; mapping != last; ++mapping) {
        Memory& memory = *mapping->second.memory;
        if (::mmap(pointer(mapping->first), memory.size, protection, MAP_SHARED | MAP_FIXED, memory.descriptor, 0) ==
            MAP_FAILED)
            return kOperatingSystem;
        mapping->second.access = protection;
    }
    return kSuccess;
}

// --- streams and events

Status copy_on_device(Address to, Address from, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(copy_on_device, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    if (size == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(may_access(to, size, PROT_WRITE) && may_access(from, size, PROT_READ));
    enqueue(*queue, {.touches = {{to, size}, {from, size}}, .duration = latency(), .started = Clock::now(), .run = [=] {
                         if (!may_access(to, size, PROT_WRITE) || !may_access(from, size, PROT_READ)) return false;
                         copy(to, from, size);
                         return true;
                     }});
    return kSuccess;
}

Status work(Stream stream, Address start, std::size_t size, unsigned char value, unsigned microseconds) {
    SALUS_STANDIN_ENTER(work, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    enqueue(*queue, {.touches = {{start, size}}, .duration = std::chrono::microseconds{microseconds}, .run = [=] {
                         if (size == 0) return true;
                         if (!may_access(start, size, PROT_WRITE)) return false;
                         std::memset(pointer(start), value, size);
                         return true;
                     }});
    return kSuccess;
}

Status launch_host_function(Stream stream, void (*function)(void*), void* data) {
    SALUS_STANDIN_ENTER(launch_host_function, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    enqueue(*queue, {.run = {}, .host = [=] { function(data); }});
    return kSuccess;
}

Status stream_create(Stream* stream, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_create, kContext);
    SALUS_STANDIN_REQUIRE((flags & ~kStreamNonBlocking) == 0);
    *stream = new_handle();
    state.queues[*stream] = {.context = current, .is_blocking = flags == 0};
    return kSuccess;
}

Status stream_destroy(Stream stream) {
    SALUS_STANDIN_ENTER(stream_destroy, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue || queue->is_default) return kInvalidHandle;
    queue->is_destroyed = true;  // what it has queued is done all the same
    state.changed.notify_all();
    return kSuccess;
}

Status context_synchronize() {
    SALUS_STANDIN_ENTER(context_synchronize, kContext);
    std::vector<std::shared_ptr<Record>> ends;
    for (auto& [stream, queue] : state.queues) {
        if (queue.context == current && queue.capturing) return kCaptureUnsupported;
    }
    for (auto& [stream, queue] : state.queues) {
        if (queue.context == current) ends.push_back(enqueue_record(queue));
    }
    for (const auto& end : ends) {
        if (const Status status = wait_for(entered, end); status != kSuccess) return status;
    }
    return kSuccess;
}

Status stream_synchronize(Stream stream) {
    SALUS_STANDIN_ENTER(stream_synchronize, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    if (queue->capturing) return kCaptureUnsupported;
    return wait_for(entered, enqueue_record(*queue));
}

Status stream_wait_event(Stream stream, Event event, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_wait_event, kContext);
    Queue* const queue = queue_of(stream);
    const auto found = state.events.find(event);
    if (!queue || found == state.events.end()) return kInvalidHandle;
    SALUS_STANDIN_REQUIRE(flags == 0);
    enqueue(*queue, {.awaited = found->second, .run = [] { return true; }});
    return kSuccess;
}

Status stream_is_capturing(Stream stream, int* status) {
    SALUS_STANDIN_ENTER(stream_is_capturing, kContext);
    const Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    *status = queue->capturing;
    return kSuccess;
}

Status hold(Stream stream, int held) {
    SALUS_STANDIN_ENTER(hold, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    queue->held = held;
    state.changed.notify_all();
    return kSuccess;
}

Status set_capturing(Stream stream, int capturing) {
    SALUS_STANDIN_ENTER(set_capturing, kContext);
    Queue* const queue = queue_of(stream);
    if (!queue) return kInvalidHandle;
    queue->capturing = capturing;
    return kSuccess;
}

Status event_create(Event* event, unsigned flags) {
    SALUS_STANDIN_ENTER(event_create, kContext);
    SALUS_STANDIN_REQUIRE((flags & ~3u) == 0);
    *event = new_handle();
    state.events[*event] = std::make_shared<Record>(Record{.is_done = true});  // as one never recorded is
    return kSuccess;
}

Status event_destroy(Event event) {
    SALUS_STANDIN_ENTER(event_destroy, kContext);
    return state.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

Status event_record(Event event, Stream stream) {
    SALUS_STANDIN_ENTER(event_record, kContext);
    Queue* const queue = queue_of(stream);
    const auto found = state.events.find(event);
    if (!queue || found == state.events.end()) return kInvalidHandle;
    found->second = enqueue_record(*queue);
    return kSuccess;
}

Status exchange_capture_mode(int* mode) {
    SALUS_STANDIN_ENTER(exchange_capture_mode, kInitialised);
    thread_local int own = 0;
    std::swap(own, *mode);
    return kSuccess;
}

Status event_query(Event event) {
    SALUS_STANDIN_ENTER(event_query, kContext);
    const auto found = state.events.find(event);
    if (found == state.events.end()) return kInvalidHandle;
    return found->second->is_done ? kSuccess : kNotReady;
}

Status event_elapsed(float* milliseconds, Event start, Event end) {
    SALUS_STANDIN_ENTER(event_elapsed, kContext);
    if (!state.events.contains(start) || !state.events.contains(end)) return kInvalidHandle;
    *milliseconds = 0;  // it knows no time
    return kSuccess;
}

Status event_synchronize(Event event) {
    SALUS_STANDIN_ENTER(event_synchronize, kContext);
    const auto found = state.events.find(event);
    if (found == state.events.end()) return kInvalidHandle;
    return wait_for(entered, std::shared_ptr(found->second));
}

}  // namespace salus::standin
