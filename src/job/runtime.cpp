#include "job/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "job/report.h"

namespace salus::job {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kChildBlock = 3 << 20;

salus_options attach_options(const Options& o) {
    salus_options options{};
    options.size = sizeof options;
    options.name = o.name.empty() ? nullptr : o.name.c_str();
    options.priority = o.priority;
    options.weight = o.weight;
    options.occupancy = o.occupancy;
    if (o.iterations_known) options.iterations = o.iterations;
    if (o.profile_known) {
        // A block that survives its iteration is persistent for as long.
        const Bytes survivor = o.survive > 0 ? std::min(o.block, o.ephemeral) : Bytes{};
        options.persistent_hint = static_cast<std::uint64_t>((o.persistent_in(o.start_at) + survivor).count);
        options.ephemeral_hint = static_cast<std::uint64_t>(o.ephemeral_in(o.start_at).count);
    }
    return options;
}

std::string out_of_memory(std::size_t size) {
    return "out of memory: " + format_bytes(Bytes{static_cast<std::int64_t>(size)}) + " more";
}

/// Waits for room, as long as it takes. If there is no service, attaching says so.
void join() {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    while (salus_announce_within(nullptr, nullptr, kSecond) == SALUS_WAITING) continue;
}

}  // namespace

Runtime::Runtime(const Options& options) : speaker_(options.speaker()) {
    if (options.alone) return;
    joined_ = options.join;
    if (joined_) join();
    const salus_options wanted = attach_options(options);
    const salus_status status = salus_attach(&wanted, &client_);
    if (status == SALUS_OK) return;
    if (!client_ || status == SALUS_TOO_LARGE) fail(kFailed, speaker_ + salus_error_text());
    std::fprintf(stderr, "salus-job: %s%s; running without sharing\n", speaker_.c_str(), salus_error_text());
}

Runtime::~Runtime() {
    // A job of its own ends when it detaches: then nobody would see the process's exit status.
    if (client_ && !joined_) salus_detach(client_);
    for (const auto& [size, blocks] : free_) {
        for (void* block : blocks) std::free(block);
    }
}

void Runtime::begin() {
    if (!client_) return;
    const salus_status status = salus_begin(client_);
    // Without a service the library lets the job run without sharing.
    if (status != SALUS_OK && status != SALUS_NO_SERVICE) fail(kFailed, speaker_ + salus_error_text());
}

void Runtime::end() {
    if (client_ && salus_end(client_) != SALUS_OK) fail(kFailed, speaker_ + salus_error_text());
}

Memory Runtime::allocate(std::size_t size, salus_kind kind) {
    if (!client_) return allocate_ordinary(size);
    void* block = salus_alloc(client_, size, kind);
    if (!block) fail(kFailed, speaker_ + out_of_memory(size) + ": " + salus_error_text());
    return {static_cast<std::byte*>(block), size};
}

/// Keeps released memory, as frameworks do. With a page fault for every page of every iteration, running alone would look
/// slower than it is.
Memory Runtime::allocate_ordinary(std::size_t size) {
    {
        const std::lock_guard lock(mutex_);
        std::vector<void*>& blocks = free_[size];
        if (!blocks.empty()) {
            const Memory memory{static_cast<std::byte*>(blocks.back()), size};
            blocks.pop_back();
            return memory;
        }
    }
    void* block = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    if (!block) fail(kFailed, speaker_ + out_of_memory(size));
    return {static_cast<std::byte*>(block), size};
}

void Runtime::release(Memory memory) {
    if (client_) return salus_free(client_, memory.data());
    const std::lock_guard lock(mutex_);
    free_[memory.size()].push_back(memory.data());
}

salus_counters Runtime::counters() {
    salus_counters counters{};
    counters.size = sizeof counters;
    if (client_ && salus_get_counters(client_, &counters) != SALUS_OK) fail(kFailed, speaker_ + salus_error_text());
    return counters;
}

bool Runtime::try_in_child(Memory inherited) {
    if (!client_) return true;
    salus_free(client_, inherited.data());
    for (salus_kind kind : {SALUS_PERSISTENT, SALUS_EPHEMERAL, SALUS_AUTO}) {
        void* block = salus_alloc(client_, kChildBlock, kind);
        if (!block) return false;
        const Memory own{static_cast<std::byte*>(block), kChildBlock};
        fill(own, kChildBlock, Touch::kFull);
        salus_begin(client_);
        salus_end(client_);
        if (first_change(own, kChildBlock, Touch::kFull)) return false;
        salus_free(client_, block);
    }
    return true;
}

}  // namespace salus::job
