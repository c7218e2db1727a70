// Actions of one process: the ways to the driver, contexts, memory, launches, graphs, threads, and misuse of each. All say
// what the driver answered; nothing that they say depends on time, on addresses or on what other processes hold.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <thread>

#include "tests/shim/orders_world.h"

namespace orders {

void World::say(const char* format, ...) const {
    char text[512];
    int size = std::snprintf(text, sizeof text, "%s ", name.c_str());
    va_list arguments;
    va_start(arguments, format);
    size += std::vsnprintf(text + size, sizeof text - static_cast<std::size_t>(size) - 1, format, arguments);
    va_end(arguments);
    size = std::min(size, static_cast<int>(sizeof text) - 2);
    text[size++] = '\n';
    if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(size)) != size) ::_exit(9);
}

Handle World::any_stream() {
    const int drawn = random.below(6);
    if (drawn >= 3 && !streams.empty()) {
        Handle const stream = random.of(streams).handle;
        if (stream != capturing.handle) return stream;
    }
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(drawn % 3));  // null, legacy, the thread's own
}

Status World::launch(Handle kernel, Address at, Handle stream, unsigned microseconds) const {
    if (!at) kernel = nullptr;  // or the process would never launch again
    std::uint64_t count = 1;
    std::uint32_t one = 1;
    void* parameters[] = {&at, &count, &one, &microseconds};
    return driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

Status World::launch_unseen(Handle kernel, Address at) const {
    if (!at) kernel = nullptr;
    std::uint64_t count = 1;
    std::uint32_t one = 1, microseconds = 20;
    void* parameters[] = {&at, &count, &one, &microseconds};
    const LaunchConfig config{{1, 1, 1}, {1, 1, 1}, 0, nullptr, nullptr, 0};
    return driver.cuLaunchKernelEx(&config, kernel, parameters, nullptr);
}

void World::forget_context(Handle context) {
    const auto is_its = [&](const auto& made) { return made.context == context; };
    std::erase_if(contexts, is_its);
    std::erase_if(streams, is_its);
    std::erase_if(kernels, is_its);
    std::erase_if(blocks, is_its);
    if (for_graphs.context == context) for_graphs = {};
    if (capturing.context == context) capturing = {};
    if (current == context) current = nullptr;
}

void find_driver(World& world) {
    constexpr int kModes[] = {0, RTLD_LOCAL, RTLD_GLOBAL, kSanitized ? 0 : RTLD_DEEPBIND, RTLD_NODELETE};
    const int mode = kModes[world.random.below(5)];
    world.library = ::dlopen("libcuda.so.1", RTLD_NOW | mode);
    if (world.library && world.random.once_in(3)) {
        const std::string path = path_of(world.library);
        if (world.random.once_in(2)) ::dlclose(world.library);
        world.library = ::dlopen(path.c_str(), (world.random.once_in(2) ? RTLD_LAZY : RTLD_NOW) | mode);
    }
    if (!world.library) return world.say("dlopen failed");
    if (mode == RTLD_GLOBAL) world.is_global = true;
    const int way = world.random.below(8);
    if (way == 0) world.driver = driver_by_symbol();
    else if (way == 1 && world.is_global) world.driver = driver_by_dlsym(RTLD_DEFAULT);
    else if (way == 2) world.driver = driver_by_dlsym(world.library, kPerThread);
    else if (way == 3) world.driver = driver_by_resolver(world.library, kDefault, 1);
    else if (way == 4) world.driver = driver_by_resolver(world.library, kDefault, 2);
    else if (way == 5) world.driver = driver_by_resolver(world.library, kPerThread, 1);
    else if (way == 6) world.driver = driver_by_resolver(world.library, kPerThread, 2);
    if (way == 7 || world.driver.count() == 0) world.driver = driver_by_dlsym(world.library);
    world.say("way %d mode %x: %d functions", way, static_cast<unsigned>(mode), world.driver.count());
}

namespace {

/// Streams of one context may have worked on blocks of another. The last error.
Status synchronize_all(World& world) {
    Status result = world.driver.cuCtxSynchronize();
    if (world.contexts.size() < 2) return result;
    for (const World::Made& made : world.contexts) {
        if (const Status status = world.driver.cuCtxSetCurrent(made.context); status != 0) result = status;
        if (const Status status = world.driver.cuCtxSynchronize(); status != 0) result = status;
    }
    const Status restored = world.driver.cuCtxSetCurrent(world.current);
    return restored != 0 ? restored : result;
}

void call_init(World& world) {
    const unsigned flags = world.random.once_in(4) ? 1 : 0;
    const Status first = world.driver.cuInit(flags), second = world.random.once_in(2) ? world.driver.cuInit(0) : -1;
    world.say("init %u: %d %d", flags, first, second);
}

void make_context(World& world) {
    Handle context = nullptr;
    const bool is_primary = world.random.below(3) > 0;
    const int device = world.random.once_in(10) ? 7 : 0;
    const Status made = is_primary ? world.driver.cuDevicePrimaryCtxRetain(&context, device)
                                   : world.driver.cuCtxCreate_v2(&context, 0, device);
    const Status set = made == 0 ? world.driver.cuCtxSetCurrent(context) : -1;
    world.say("context primary %d: %d %d", is_primary, made, set);
    if (made != 0) return;
    if (is_primary && world.primary_retained++ > 0) {
        world.current = context;
        return;
    }
    world.contexts.push_back({context, is_primary ? context : nullptr});
    world.current = context;
}

void end_context(World& world) {
    if (world.contexts.empty()) return world.say("context null: %d", world.driver.cuCtxDestroy_v2(nullptr));
    const World::Made one = world.random.of(world.contexts);
    if (world.capturing.handle) return;  // earlier work of that stream is not waited for
    if (world.contexts.size() > 1 && synchronize_all(world) != 0) return;
    if (!one.handle) {
        const Status status = world.driver.cuCtxDestroy_v2(one.context);
        world.say("context destroyed: %d, again %d", status, world.driver.cuCtxDestroy_v2(one.context));
        if (status == 0) world.forget_context(one.context);
        return;
    }
    const Status status = world.driver.cuDevicePrimaryCtxRelease_v2(0);
    world.say("context released: %d", status);
    if (status == 0 && --world.primary_retained == 0) world.forget_context(one.context);
}

void pop_context(World& world) {
    world.say("pop: %d", world.driver.cuCtxPopCurrent_v2(nullptr));
    world.current = nullptr;
}

void set_context(World& world) {
    if (world.contexts.empty()) return world.say("set null: %d", world.driver.cuCtxSetCurrent(nullptr));
    Handle const context = world.random.of(world.contexts).context;
    const Status status = world.driver.cuCtxSetCurrent(context);
    world.say("set: %d", status);
    if (status == 0) world.current = context;
}

void load_kernel(World& world) {
    Handle module = nullptr, kernel = nullptr;
    const Status loaded = world.driver.cuModuleLoadData(&module, world.random.once_in(8) ? "nothing" : "add");
    const Status found = world.driver.cuModuleGetFunction(&kernel, module, world.random.once_in(8) ? "other" : "add");
    world.say("kernel: %d %d", loaded, found);
    if (found == 0) world.kernels.push_back({world.current, kernel});
}

void make_stream(World& world) {
    Handle stream = nullptr;
    const unsigned flags = static_cast<unsigned>(world.random.below(5)) % 3;  // 2: there is no such
    const Status status = world.driver.cuStreamCreate(&stream, flags);
    world.say("stream %u: %d", flags, status);
    if (status == 0) world.streams.push_back({world.current, stream});
}

void end_stream(World& world) {
    Handle stream = nullptr;
    if (!world.streams.empty()) {
        stream = world.random.of(world.streams).handle;
        if (stream == world.capturing.handle) return;
        std::erase_if(world.streams, [&](const World::Made& made) { return made.handle == stream; });
    }
    const Status status = world.driver.cuStreamDestroy_v2(stream);
    world.say("stream destroyed: %d, again %d", status, world.driver.cuStreamDestroy_v2(stream));
}

void allocate(World& world) {
    constexpr std::size_t kSizes[] = {4096, 4096, 100000, 2 << 20, 5 << 20, 0, std::size_t{1} << 50};
    const std::size_t size = kSizes[world.random.below(static_cast<int>(std::size(kSizes)))];
    const int how = world.random.below(5);
    Address at = 0;
    Address* const to = world.random.once_in(10) ? nullptr : &at;
    std::size_t pitch = 0;
    Status status = -1;
    if (how == 0) status = world.driver.cuMemAllocPitch_v2(to, &pitch, size, 1, 4);
    else if (how == 1) status = world.driver.cuMemAllocAsync(to, size, world.any_stream());
    else if (how == 2) status = world.driver.cuMemAllocManaged(to, size, 1);
    else status = world.driver.cuMemAlloc_v2(to, size);
    world.say("allocate %d %zu: %d", how, size, status);
    if (status == 0) world.blocks.push_back({world.current, at});
}

void free_block(World& world) {
    if (world.blocks.empty() || world.random.once_in(5))
        return world.say("free: null %d, other %d", world.driver.cuMemFree_v2(0), world.driver.cuMemFree_v2(0x1000));
    const std::size_t which = static_cast<std::size_t>(world.random.below(static_cast<int>(world.blocks.size())));
    const Address at = world.blocks[which].at;
    if (world.capturing.handle) return;  // earlier work of that stream is not waited for
    // Who frees a block in a stream's order has waited for the other streams.
    const bool has_waited = (world.contexts.size() > 1 || world.random.once_in(3)) && synchronize_all(world) == 0;
    if (!has_waited && world.contexts.size() > 1) return;
    const bool in_order = has_waited && world.random.once_in(2);
    Handle const stream = world.any_stream();
    const auto free = [&] { return in_order ? world.driver.cuMemFreeAsync(at, stream) : world.driver.cuMemFree_v2(at); };
    const Status first = free();
    world.say("free %d: %d, again %d", in_order, first, free());
    if (first == 0) world.blocks.erase(world.blocks.begin() + static_cast<std::ptrdiff_t>(which));
}

void ask_memory(World& world) {
    std::size_t free = 0, total = 0;
    const Status status = world.driver.cuMemGetInfo_v2(&free, &total);
    world.say("memory: %d %d, null %d", status, free <= total, world.driver.cuMemGetInfo_v2(nullptr, nullptr));
}

/// Shared memory: from now on launches wait for no turns.
void export_memory(World& world) {
    struct Properties {  // CUmemAllocationProp
        int type = 1, handle_types = 1, place = 1, device = 0;
        void* other = nullptr;
        unsigned char flags[8] = {};
    } properties;
    std::uint64_t handle = 0;
    int descriptor = -1;
    const Status made = world.driver.cuMemCreate(&handle, 2 << 20, world.random.once_in(6) ? nullptr : &properties, 0);
    const Status exported = world.driver.cuMemExportToShareableHandle(&descriptor, handle, 1, 0);
    if (exported == 0) ::close(descriptor);
    const Status released = world.driver.cuMemRelease(handle);
    world.say("export: %d %d %d, again %d", made, exported, released, world.driver.cuMemRelease(handle));
}

void launch_some(World& world) {
    if (world.blocks.empty()) return world.say("launch: %d", world.launch(world.any_kernel(), 0, nullptr, 0));
    const Address at = world.random.of(world.blocks).at;
    const bool is_long = world.random.once_in(15);
    const int count = is_long ? 100 : 1 + world.random.below(30);
    const unsigned microseconds = is_long ? 300 : static_cast<unsigned>(world.random.below(3)) * 50;
    Handle const kernel = world.any_kernel();
    int statuses[3] = {};  // successes, failures, the last failure
    for (int i = 0; i < count; ++i) {
        const Status status = world.launch(kernel, at, world.any_stream(), microseconds);
        ++statuses[status != 0];
        if (status != 0) statuses[2] = status;
    }
    world.say("launch %d: %d well, %d not, %d", count, statuses[0], statuses[1], statuses[2]);
}

void launch_otherwise(World& world) {
    if (world.blocks.empty()) return;
    struct {
        Address at;
        std::uint64_t count = 1;
        std::uint32_t summand = 1, microseconds = 10;
    } packed{world.random.of(world.blocks).at};
    std::size_t size = sizeof packed;
    void* parameters[] = {&packed.at, &packed.count, &packed.summand, &packed.microseconds};
    void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &size, nullptr};
    const LaunchConfig config{{1, 1, 1}, {1, 1, 1}, 0, world.any_stream(), nullptr, 0};
    Handle const kernel = world.any_kernel();
    const Driver& driver = world.driver;
    const Status by_config = driver.cuLaunchKernelEx(&config, kernel, parameters, nullptr);
    const Status cooperative = driver.cuLaunchCooperativeKernel(kernel, 1, 1, 1, 1, 1, 1, 0, world.any_stream(), parameters);
    const Status by_extra = driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, world.any_stream(), nullptr, extra);
    world.say("launch otherwise: %d %d %d", by_config, cooperative, by_extra);
}

void launch_wrongly(World& world) {
    const Driver& driver = world.driver;
    Handle const kernel = world.any_kernel(), nowhere = reinterpret_cast<Handle>(0x77);
    const LaunchConfig empty{};
    world.say("launch wrongly: %d %d %d %d %d %d %d %d", driver.cuLaunchKernelEx(nullptr, kernel, nullptr, nullptr),
              driver.cuLaunchKernelEx(&empty, kernel, nullptr, nullptr),
              driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              driver.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              driver.cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              driver.cuLaunchCooperativeKernel(nowhere, 1, 1, 1, 1, 1, 1, 0, nowhere, nullptr),
              world.launch(kernel, 0, nowhere, 0), driver.cuGraphLaunch(nullptr, nullptr));
}

/// The sum of what was launched: that is what a program computes.
void check(World& world) {
    const Status synchronised = synchronize_all(world);
    std::uint64_t sum = 0;
    Status copied = 0;
    for (const World::Block& block : world.blocks) {
        std::uint32_t word = 0;
        const Status status = world.driver.cuMemcpyDtoH_v2(&word, block.at, sizeof word);
        sum = sum * 31 + word;
        if (status != 0) copied = status;
    }
    world.say("check: %d %d, %zu blocks, sum %llu", synchronised, copied, world.blocks.size(),
              static_cast<unsigned long long>(synchronised == 0 ? sum : 0));
}

void use_events(World& world) {
    Handle event = nullptr;
    const Status made = world.driver.cuEventCreate(&event, world.random.once_in(2) ? 2 : 0);
    const Status recorded = world.driver.cuEventRecord(event, world.any_stream());
    const Status waited = world.driver.cuEventSynchronize(event);
    world.say("event: %d %d %d %d", made, recorded, waited, world.driver.cuEventDestroy_v2(event));
}

std::atomic<int> host_calls{0};

void call_host(World& world) {
    const int before = host_calls;
    Handle const stream = world.any_stream();
    const auto count = [](void*) { ++host_calls; };
    const Status launched = world.driver.cuLaunchHostFunc(stream, count, nullptr);
    const Status waited = synchronize_all(world);
    world.say("host function: %d %d, %d calls", launched, waited, waited == 0 ? host_calls - before : -1);
}

void begin_capture(World& world) {
    if (world.streams.empty())
        return world.say("capture: %d", world.driver.cuStreamBeginCapture_v2(reinterpret_cast<Handle>(1), 0));
    const World::Made stream = world.random.of(world.streams);
    const int mode = world.random.below(4);  // 3: there is no such
    const Status status = world.driver.cuStreamBeginCapture_v2(stream.handle, mode);
    world.say("capture %d: %d", mode, status);
    if (status == 0) world.capturing = stream;
}

void capture_some(World& world) {
    if (!world.for_graphs.at) {
        const Status status = world.driver.cuMemAlloc_v2(&world.for_graphs.at, 4096);
        world.say("block for graphs: %d", status);
        if (status != 0) return;
        world.for_graphs.context = world.current;
    }
    if (!world.capturing.handle) return begin_capture(world);
    int told = -1;
    const Status asked = world.driver.cuStreamIsCapturing(world.capturing.handle, &told);
    world.say("captured: %d, %d %d", world.launch(world.any_kernel(), world.for_graphs.at, world.capturing.handle, 20),
              asked, told);
}

void end_capture(World& world) {
    Handle const stream = world.capturing.handle ? world.capturing.handle : world.any_stream();
    Handle graph = nullptr, runnable = nullptr;
    const Driver& driver = world.driver;
    const Status ended = driver.cuStreamEndCapture(stream, &graph);
    const Status made = driver.cuGraphInstantiateWithFlags(&runnable, graph, 0);
    world.capturing = {};
    Status launched = 0;
    for (int i = world.random.below(8); i >= 0; --i) {
        if (const Status status = driver.cuGraphLaunch(runnable, world.any_stream()); status != 0) launched = status;
    }
    std::uint32_t word = 0;
    const Status waited = synchronize_all(world);
    const Status copied = driver.cuMemcpyDtoH_v2(&word, world.for_graphs.at, sizeof word);
    world.say("graph: %d %d %d %d %d, sum %u", ended, made, launched, waited, copied, waited == 0 ? word : 0);
    world.say("graph destroyed: %d %d", driver.cuGraphDestroy(graph), driver.cuGraphExecDestroy(runnable));
}

/// A kernel touches what is not mapped: nothing works afterwards.
void fault(World& world) {
    if (world.capturing.handle || world.random.below(4) > 0) return;
    const Status launched = world.launch(world.any_kernel(), 0x1000, nullptr, 0);
    world.say("fault: %d %d", launched, world.driver.cuCtxSynchronize());
}

struct ThreadResult {
    Status set = 0, made = 0, launched = 0, waited = 0, copied = 0, freed = 0;
    std::uint32_t sum = 0;
};

ThreadResult run_thread(const World& world, int launches, int kind) {
    const Driver& driver = world.driver;
    ThreadResult result;
    if (kind != 1) result.set = driver.cuCtxSetCurrent(world.current);
    Handle stream = reinterpret_cast<Handle>(static_cast<std::uintptr_t>(kind == 2 ? 2 : 0));
    if (kind >= 3) driver.cuStreamCreate(&stream, kind == 3);
    Address at = 0;
    result.made = driver.cuMemAlloc_v2(&at, 4096);
    Handle const kernel = world.kernels.empty() ? nullptr : world.kernels.front().handle;
    for (int i = 0; i < launches; ++i) {
        if (const Status status = world.launch(kernel, at, stream, 30); status != 0) result.launched = status;
    }
    if (launches % 4 == 0) return result;  // it ends while it has work in flight
    result.waited = driver.cuStreamSynchronize(stream);
    result.copied = driver.cuMemcpyDtoH_v2(&result.sum, at, sizeof result.sum);
    result.freed = driver.cuMemFree_v2(at);
    return result;
}

void use_threads(World& world) {
    if (world.capturing.handle || !world.may_make_threads()) return;  // whose captures threads end would depend on time
    std::vector<ThreadResult> results(static_cast<std::size_t>(2 + world.random.below(3)));
    std::vector<std::thread> threads;
    for (ThreadResult& result : results) {
        const int launches = world.random.below(40), kind = world.random.below(5);
        threads.emplace_back([&, launches, kind] { result = run_thread(world, launches, kind); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const ThreadResult& r : results)
        world.say("thread: %d %d %d %d %d %d, sum %u", r.set, r.made, r.launched, r.waited, r.copied, r.freed, r.sum);
}

void reopen(World& world) {
    const int closed = world.library ? ::dlclose(world.library) : -1;
    world.library = nullptr;
    world.say("dlclose: %d, stays %d", closed, ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr);
    find_driver(world);
}

void look_up_wrongly(World& world) {
    ::dlerror();
    const bool unknown = ::dlsym(world.library, "cuNoSuchFunction"), has_error = ::dlerror();
    const bool other = ::dlsym(world.library, "cudaMalloc"), next = ::dlsym(RTLD_NEXT, "cuNoSuchFunction");
    const bool own = ::dlsym(RTLD_DEFAULT, "curl_easy_init"), libcs = ::dlsym(RTLD_DEFAULT, "malloc");
    ::dlerror();
    world.say("look up: %d %d %d %d %d %d %d", unknown, has_error, other, next, own, libcs, ::dlerror() != nullptr);
}

void resolve_wrongly(World& world) {
    using First = Status (*)(const char*, void**, int, std::uint64_t);
    using Second = Status (*)(const char*, void**, int, std::uint64_t, int*);
    const auto first = reinterpret_cast<First>(::dlsym(world.library, "cuGetProcAddress"));
    const auto second = reinterpret_cast<Second>(::dlsym(world.library, "cuGetProcAddress_v2"));
    constexpr const char* kNames[] = {"cuLaunchKernel", "cuNoSuchFunction", "", "cuMemAlloc", "cuLaunchKernel_ptsz"};
    constexpr int kVersions[] = {12000, 1000, 0, -1, 99999, 3020};
    for (int i = 0; i < 4; ++i) {
        const char* const name = world.random.once_in(8) ? nullptr : kNames[world.random.below(5)];
        const int version = kVersions[world.random.below(6)];
        const std::uint64_t flags = static_cast<std::uint64_t>(world.random.below(5));
        void *one = nullptr, *two = nullptr;
        int result = -1;
        const bool nowhere = world.random.once_in(8);
        const Status by_first = first(name, nowhere ? nullptr : &one, version, flags);
        const Status by_second =
            second(name, nowhere ? nullptr : &two, version, flags, world.random.once_in(3) ? nullptr : &result);
        world.say("resolve: %d %d, %d %d %d", by_first, one != nullptr, by_second, two != nullptr, result);
    }
}

/// A driver of its own, in a namespace of its own: nothing of it is known elsewhere.
void use_namespace(World& world) {
    if (world.has_own_namespace || world.random.below(2) > 0) return;
    world.has_own_namespace = true;
    if (kSanitized) return;
    void* const library = ::dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (!library) return world.say("dlmopen failed");
    World other{.random = Random(1), .name = world.name};
    other.driver = driver_by_dlsym(library);
    const Driver& driver = other.driver;
    Handle context = nullptr, module = nullptr, kernel = nullptr;
    Address at = 0;
    std::uint32_t sum = 0;
    const Status ready[] = {driver.cuInit(0),
                            driver.cuDevicePrimaryCtxRetain(&context, 0),
                            driver.cuCtxSetCurrent(context),
                            driver.cuModuleLoadData(&module, "add"),
                            driver.cuModuleGetFunction(&kernel, module, "add"),
                            driver.cuMemAlloc_v2(&at, 4096)};
    Status launched = 0;
    for (int i = 0; i < 10; ++i) launched += other.launch(kernel, at, nullptr, 20);
    const Status copied = driver.cuMemcpyDtoH_v2(&sum, at, sizeof sum);
    world.say("dlmopen: %d %d %d %d %d %d, %d %d, sum %u", ready[0], ready[1], ready[2], ready[3], ready[4], ready[5],
              launched, copied, sum);
}

void pause(World& world) { ::usleep(static_cast<useconds_t>(500 << world.random.below(5))); }

constexpr Action kGpuActions[] = {
    {"find", 3, find_driver},
    {"init", 3, call_init},
    {"context", 2, make_context},
    {"context ends", 1, end_context},
    {"pop", 1, pop_context},
    {"set", 2, set_context},
    {"kernel", 2, load_kernel},
    {"stream", 3, make_stream},
    {"stream ends", 1, end_stream},
    {"allocate", 5, allocate},
    {"free", 3, free_block},
    {"memory", 1, ask_memory},
    {"export", 1, export_memory},
    {"launch", 10, launch_some},
    {"launch otherwise", 3, launch_otherwise},
    {"launch wrongly", 2, launch_wrongly},
    {"check", 4, check},
    {"events", 1, use_events},
    {"host", 1, call_host},
    {"capture", 2, begin_capture},
    {"captured", 4, capture_some},
    {"graph", 2, end_capture},
    {"fault", 1, fault},
    {"threads", 3, use_threads},
    {"reopen", 2, reopen},
    {"look up", 1, look_up_wrongly},
    {"resolve", 1, resolve_wrongly},
    {"namespace", 1, use_namespace},
    {"pause", 2, pause},
};

}  // namespace

std::span<const Action> gpu_actions() { return kGpuActions; }

void set_up(World& world) {
    const Driver& driver = world.driver;
    Handle context = nullptr, module = nullptr, kernel = nullptr, stream = nullptr;
    const Status init = driver.cuInit(0), retained = driver.cuDevicePrimaryCtxRetain(&context, 0);
    const Status set = driver.cuCtxSetCurrent(context), loaded = driver.cuModuleLoadData(&module, "add");
    const Status found = driver.cuModuleGetFunction(&kernel, module, "add"), made = driver.cuStreamCreate(&stream, 1);
    world.say("set up: %d %d %d %d %d %d", init, retained, set, loaded, found, made);
    if (retained == 0 && world.primary_retained++ == 0) world.contexts.push_back({context, context});
    if (set == 0) world.current = context;
    if (found == 0) world.kernels.push_back({context, kernel});
    if (made == 0) world.streams.push_back({context, stream});
    for (int i = world.random.below(3); i >= 0; --i) {
        Address at = 0;
        if (driver.cuMemAlloc_v2(&at, 4096) == 0) world.blocks.push_back({context, at});
    }
}

}  // namespace orders
