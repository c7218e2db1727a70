// What the shim (src/shim) tells this library: launches and memory of a program, whichever framework it uses.
//
// Note [Who takes turns by launches]
// - A process with no adaptor: from its first launch or allocation on. It attaches then, in the context that is current.
// - A process whose adaptor has attached, but has shown no iteration for kPatience after the first launch: it computes
//   without models (a Triton program that borrows torch's tensors, for one). When its first iteration comes, that is over.
// - Nobody else. Processes that wait for each other must not wait for turns: ranks of a distributed job, and those that
//   exchange memory or events with another process.
//
// A child of fork() is nobody: whoever is linked has called cuInit, so CUDA forbids the child to use the GPU, and other
// threads may have held any lock of ours when it was made. Every call returns at once, and the driver gives its errors.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/text.h"
#include "library/process.h"
#include "os/clock.h"
#include "shim/link.h"

namespace salus::library {
namespace {

constexpr std::uint64_t kPatienceNs = 1'000'000'000;

/// What the program has taken from the driver itself.
class Holdings {
public:
    bool may_take(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        return limit_ == 0 || total_ + bytes <= limit_;
    }
    std::uint64_t took(std::uint64_t name, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        std::uint64_t& known = blocks_[name];
        total_ += bytes - known;
        known = bytes;
        return total_;
    }
    /// Nothing: it is not known.
    std::optional<std::uint64_t> gave(std::uint64_t name) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(name);
        if (found == blocks_.end()) return std::nullopt;
        total_ -= found->second;
        blocks_.erase(found);
        return total_;
    }
    std::uint64_t total() {
        const std::lock_guard lock(mutex_);
        return total_;
    }
    std::uint64_t limit() const { return limit_; }

private:
    static std::uint64_t limit_from_environment() {
        const char* text = std::getenv("SALUS_MEMORY");
        return text ? static_cast<std::uint64_t>(parse_number(text).value_or(0)) : 0;
    }

    std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::uint64_t> blocks_;
    std::uint64_t total_ = 0;
    const std::uint64_t limit_ = limit_from_environment();
};
/// Never destroyed: programs free memory until their very end.
Holdings& holdings = *new Holdings;

enum class Role : std::uint8_t { kUndecided, kDeciding, kByLaunches, kByAdaptor, kUngated };
std::atomic<Role> role{Role::kUndecided};
std::atomic<bool> is_child{false};
std::atomic<std::uint64_t> first_launch_ns{0};

bool is_rank_of_many() {
    for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
        const char* text = std::getenv(name);
        if (text && parse_number(text).value_or(1) > 1) return true;
    }
    return false;
}

/// This process is about to use the GPU, and has no adaptor that has said so.
Role attach_for_launches() {
    if (is_rank_of_many()) return Role::kUngated;
    std::string why_not;
    salus_client* const client = attach_without_memory(holdings.total(), why_not);
    if (!client) {
        if (why_not.empty()) return Role::kByAdaptor;  // it was faster
        std::fprintf(stderr, "salus: %s; the job runs without sharing\n", why_not.c_str());
        return Role::kUngated;
    }
    client->client.take_turns_by_launches(true);
    return Role::kByLaunches;
}

/// Other threads go on without a turn while one decides.
Role decide() {
    Role now = role.load(std::memory_order_acquire);
    if (now != Role::kUndecided) return now;
    if (the_client()) {
        role.compare_exchange_strong(now, Role::kByAdaptor);
        return Role::kByAdaptor;
    }
    if (!has_context() || !role.compare_exchange_strong(now, Role::kDeciding)) return Role::kUngated;
    const Role decided = attach_for_launches();
    now = Role::kDeciding;
    return role.compare_exchange_strong(now, decided) ? decided : now;
}

/// An adaptor that shows nothing.
void look_for_iterations(salus_client& client) {
    const std::uint64_t now = os::now_ns();
    std::uint64_t first = 0;
    if (first_launch_ns.compare_exchange_strong(first, now)) return;
    if (client.client.has_begun()) {
        role = Role::kUngated;  // for launches; its iterations take turns
        return;
    }
    if (now - first < kPatienceNs || is_rank_of_many()) return;
    client.client.take_turns_by_launches(true);
    role = Role::kByLaunches;
}

thread_local bool inside = false;

void launch_begins(void* stream) {
    if (is_child.load(std::memory_order_relaxed)) return;
    const Role now = decide();
    if (now == Role::kUngated || now == Role::kDeciding) [[likely]]
        return;
    salus_client* const client = the_client();
    if (!client) return;
    if (now == Role::kByAdaptor) return look_for_iterations(*client);
    if (!client->client.takes_turns_by_launches()) return;
    try {
        client->client.launch_begins(reinterpret_cast<device::Stream>(stream));
        inside = true;
    } catch (...) {
        client->client.fail("a launch cannot wait for its turn");
    }
}

void launch_ends() {
    if (!inside) return;
    inside = false;
    if (is_child.load(std::memory_order_relaxed)) return;  // made by a callback in the launch
    if (salus_client* const client = the_client()) client->client.launch_ends();
}

void tell_holdings(std::uint64_t total) {
    if (role.load(std::memory_order_acquire) != Role::kByLaunches) return;
    if (salus_client* const client = the_client()) client->client.holds(total);
}

bool may_allocate(std::uint64_t bytes) {
    if (is_child.load(std::memory_order_relaxed)) return true;
    decide();
    return holdings.may_take(bytes);
}

void allocated(std::uint64_t name, std::uint64_t bytes) { tell_holdings(holdings.took(name, bytes)); }

void freed(std::uint64_t name) {
    if (is_child.load(std::memory_order_relaxed)) return;
    if (const auto total = holdings.gave(name)) tell_holdings(*total);
}

void memory_info(std::uint64_t* free, std::uint64_t* total) {
    const std::uint64_t own = holdings.total(), limit = holdings.limit();
    salus_client* const client = the_client();
    const auto room = client ? client->client.room() : std::nullopt;
    if (limit == 0 && !room) return;
    std::uint64_t others = 0;
    if (room) {
        *total = std::min(*total, room->capacity);
        others = room->others_hold;
    }
    if (limit > 0) *total = std::min(*total, limit);
    const std::uint64_t capacity = room ? room->capacity : *total;
    const std::uint64_t left = capacity - std::min(capacity, others + own);
    *free = std::min({*free, left, *total - std::min(*total, own)});
}

void exchanges() {
    if (is_child.load(std::memory_order_relaxed)) return;
    role = Role::kUngated;
    if (salus_client* const client = the_client()) client->client.take_turns_by_launches(false);
}

const shim::ClientSide kClientSide{shim::kLinkVersion, launch_begins, launch_ends, may_allocate,
                                   allocated,          freed,         memory_info, exchanges};

}  // namespace
}  // namespace salus::library

extern "C" __attribute__((visibility("default"))) const salus::shim::ClientSide* salus_shim_link(
    const salus::shim::ShimSide* shim) {
    if (!shim || shim->version != salus::shim::kLinkVersion) return nullptr;
    if (::pthread_atfork(nullptr, nullptr, [] { salus::library::is_child = true; }) != 0) return nullptr;
    return &salus::library::kClientSide;
}
