// What the shim (src/shim) tells this library: launches and memory of a program, whichever framework it uses.
//
// Note [Who takes turns by launches]
// - A process with no adaptor: from its first launch or allocation on. It attaches then, in the context that is current.
// - A process whose adaptor has attached, but has shown no iteration for kPatience after the first launch: it computes
//   without models (a Triton program that borrows torch's tensors, for one). When its first iteration comes, that is over.
//   A process that detaches and attaches again is looked at anew.
// - Processes that wait for each other on the device take their turns together, as the crew of their job: ranks under one
//   launcher, and those that exchange memory or events (Note [Crews] in core/crews.cpp). Where they cannot, they take no
//   turns: with an adaptor, outside of a job, as ranks that have joined by themselves, or with ranks on other machines,
//   which wait for turns of their own.
// - Nobody else.
//
// A child of fork() is nobody: whoever is linked has called cuInit, so CUDA forbids the child to use the GPU, and other
// threads may have held any lock of ours when it was made. Every call returns at once, and the driver gives its errors.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "client/launches_wanted.h"
#include "library/holdings.h"
#include "library/joined.h"
#include "library/process.h"
#include "os/clock.h"
#include "os/thread.h"
#include "shim/link.h"

namespace salus::library {
namespace {

constexpr std::uint64_t kPatienceNs = 1'000'000'000;
/// How long a process waits to start between two looks at itself.
constexpr Duration kJoinLook = seconds(1);

/// Once: who cannot join cannot attach either, for the same reason.
void say_unshared(const char* why) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) std::fprintf(stderr, "salus: %s; the job runs without sharing\n", why);
}

std::uint64_t limit_from_environment() {
    const char* text = std::getenv("SALUS_MEMORY");
    return text ? static_cast<std::uint64_t>(parse_number(text).value_or(0)) : 0;
}

enum class Role : std::uint8_t { kUndecided, kDeciding, kByLaunches, kByAdaptor, kUngated };
std::atomic<Role> role{Role::kUndecided};
std::atomic<bool> is_child{false};
std::atomic<std::uint64_t> first_launch_ns{0};
std::atomic<bool> has_exchanged{false};

/// After each change of the role. If threads change it at once, the last of them to come here tells what it is.
void tell_whether_launches_matter() {
    Role told;
    do {
        told = role.load();
        if (told == Role::kUngated) client::launches_wanted.fetch_and(~client::kWantedForTurns);
        else client::launches_wanted.fetch_or(client::kWantedForTurns);
    } while (role.load() != told);
}

bool change_role(Role before, Role after) {
    if (!role.compare_exchange_strong(before, after)) return false;
    tell_whether_launches_matter();
    return true;
}

void set_role(Role now) {
    role.store(now);
    tell_whether_launches_matter();
}

/// How many ranks a launcher says that there are, in all and on this machine.
struct Ranks {
    double all = 1, here = 1;
};
Ranks ranks() {
    constexpr const char* kLaunchers[][2] = {{"WORLD_SIZE", "LOCAL_WORLD_SIZE"},
                                             {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                             {"PMI_SIZE", "MPI_LOCALNRANKS"}};
    const auto number = [](const char* name, double otherwise) {
        const char* text = std::getenv(name);
        return text ? parse_number(text).value_or(otherwise) : otherwise;
    };
    const bool on_many_machines = number("SLURM_STEP_NUM_NODES", 1) > 1;
    for (const auto& [all, here] : kLaunchers) {
        const double count = number(all, 1);
        if (count > 1) return {count, number(here, on_many_machines ? 1 : count)};
    }
    return {};
}

bool waits_for_others() { return has_exchanged || ranks().all > 1; }

/// SALUS_NO_CREW is set by the adaptor, whose ranks wait for each other once an iteration, wherever they are. Ranks that
/// have joined by themselves are jobs of their own, whose turns come one after another.
bool may_join_crew() {
    const Ranks r = ranks();
    return r.here >= r.all && salus_job() != 0 && !has_joined() && !std::getenv("SALUS_NO_CREW");
}

/// This process is about to use the GPU, and has no adaptor that has said so.
Role attach_for_launches() {
    if (was_refused()) return Role::kUngated;  // starts() or its adaptor has said so
    if (waits_for_others() && !may_join_crew()) {
        tell_unshared("its processes wait for others on the GPU, which take no turns with them");
        return Role::kUngated;
    }
    std::string why_not;
    salus_client* const client = attach_without_memory(holdings().total(), why_not);
    if (!client) {
        if (why_not.empty()) return Role::kByAdaptor;  // it was faster
        say_unshared(why_not.c_str());
        tell_unshared(why_not);
        return Role::kUngated;
    }
    if (waits_for_others() && !client->client.join_crew()) return Role::kUngated;
    client->client.take_turns_by_launches(true);
    return Role::kByLaunches;
}

/// The process waits for others on the device, from now on. REQUIRES: the role is decided.
void take_turns_together() {
    const ClientInUse client;
    if (client && role.load() == Role::kByLaunches && may_join_crew() && client->join_crew()) return;
    set_role(Role::kUngated);
    if (client) client->take_turns_by_launches(false);
}

/// Other threads go on without a turn while one decides.
Role decide() {
    Role now = role.load(std::memory_order_acquire);
    if (now != Role::kUndecided) return now;
    if (the_client()) {
        change_role(Role::kUndecided, Role::kByAdaptor);
        return Role::kByAdaptor;
    }
    if (!current_context() || !change_role(Role::kUndecided, Role::kDeciding)) return Role::kUngated;
    const Role decided = attach_for_launches();
    if (!change_role(Role::kDeciding, decided)) return role;
    if (has_exchanged) take_turns_together();  // perhaps meanwhile
    return role;
}

/// An adaptor that shows nothing.
void look_for_iterations(client::ProcessClient& client) {
    const std::uint64_t now = os::now_ns();
    std::uint64_t first = 0;
    if (first_launch_ns.compare_exchange_strong(first, now)) return;
    if (client.has_begun()) {
        set_role(Role::kUngated);  // for launches; its iterations take turns
        return;
    }
    if (now - first < kPatienceNs) return;
    if (waits_for_others()) {
        set_role(Role::kUngated);
        return;
    }
    client.take_turns_by_launches(true);
    set_role(Role::kByLaunches);
}

/// While this thread is inside a launch for which it has waited: the client that it uses until the launch ends.
constinit thread_local client::ProcessClient* launches_by = nullptr;

void wait_for_turn(client::ProcessClient& client, device::Stream stream) {
    if (launches_by || !client.takes_turns_by_launches()) return;
    try {
        client.launch_begins(stream);
        client::begin_use();
        launches_by = &client;
    } catch (...) {
        client.fail("a launch cannot wait for its turn");
    }
}

void launch_begins(void* on) {
    if (is_child) return;
    const Role now = decide();
    const ClientInUse client;
    if (!client) return;
    const auto stream = reinterpret_cast<device::Stream>(on);
    if (now == Role::kByLaunches) wait_for_turn(*client.get(), stream);
    else if (now == Role::kByAdaptor) look_for_iterations(*client.get());
    client->pass_gate(stream);
}

void launch_ends() {
    client::ProcessClient* const client = std::exchange(launches_by, nullptr);
    if (!client) return;
    if (!is_child) client->launch_ends();  // a callback in the launch may have made a child
    client::end_use();
}

void tell_holdings() {
    if (role.load(std::memory_order_acquire) != Role::kByLaunches) return;
    if (const ClientInUse client; client) client->holds(holdings().total());
}

void stream_ends(void* stream) {
    if (is_child) return;
    if (const ClientInUse client; client) client->stream_ends(reinterpret_cast<device::Stream>(stream));
}

bool may_allocate(std::uint64_t bytes) {
    if (is_child) return true;
    decide();
    return holdings().reserve(bytes);
}

void allocated(std::uint64_t name, std::uint64_t bytes) {
    if (is_child) return;
    holdings().name(name, bytes, reinterpret_cast<std::uintptr_t>(current_context()));
    tell_holdings();
}

void not_allocated(std::uint64_t bytes) {
    if (!is_child) holdings().unreserve(bytes);
}

std::uint64_t freeing(std::uint64_t name) {
    if (is_child) return 0;
    const std::uint64_t bytes = holdings().take_out(name);
    if (bytes > 0) tell_holdings();
    return bytes;
}

void not_freed(std::uint64_t name, std::uint64_t bytes) {
    holdings().put_back(name, bytes);
    tell_holdings();
}

void mapped(std::uint64_t address, std::uint64_t handle) {
    if (!is_child) holdings().map(address, handle);
}

void unmapped(std::uint64_t address, std::uint64_t bytes) {
    if (is_child) return;
    holdings().unmap(address, bytes);
    tell_holdings();
}

std::uint64_t context_ends(void* context) {
    return is_child ? 0 : holdings().context_ends(reinterpret_cast<std::uintptr_t>(context));
}

void context_ended(std::uint64_t ending) {
    if (is_child) return;
    holdings().context_ended(ending);
    tell_holdings();
    if (const ClientInUse client; client) client->context_ended();
}

void context_stays(std::uint64_t ending) {
    if (!is_child) holdings().context_stays(ending);
}

void memory_info(std::uint64_t* free, std::uint64_t* total) {
    if (is_child) return;
    decide();
    // What the client's memory holds counts against the limit. Of the GPU's free memory it is missing already.
    const std::uint64_t own = holdings().total(), with_served = holdings().total_with_served(), limit = holdings().limit();
    const ClientInUse client;
    const auto room = client ? client->room() : std::nullopt;
    if (limit == 0 && !room) return;
    std::uint64_t others = 0;
    if (room) {
        *total = std::min(*total, room->capacity);
        others = room->others_hold;
    }
    if (limit > 0) *total = std::min(*total, limit);
    const std::uint64_t capacity = room ? room->capacity : *total;
    const std::uint64_t left = capacity - std::min(capacity, others + own);
    *free = std::min({*free, left, *total - std::min(*total, with_served)});
}

void exchanges() {
    if (is_child) return;
    has_exchanged = true;
    const Role now = role.load();
    if (now != Role::kUndecided && now != Role::kDeciding) take_turns_together();  // else decide() looks
}

/// A thread inside cuInit cannot handle a signal as its program would, so a signal ends the wait.
void starts() {
    if (is_child || !should_join()) return;
    try {
        const os::HeldSignals held;
        for (;;) {
            const std::uint64_t before = os::now_ns();
            const Result<bool> may_start = join({}, {}, kJoinLook, &held.before());
            if (!may_start) return say_unshared(may_start.error().c_str());
            const bool signal_came = os::now_ns() - before < static_cast<std::uint64_t>(kJoinLook.ns);
            if (may_start.value() || (has_joined() && signal_came)) return;
        }
    } catch (const std::exception& error) {
        say_unshared(error.what());
    }
}

const shim::ClientSide kClientSide{.starts = starts,
                                   .launch_begins = launch_begins,
                                   .launches_wanted = &client::launches_wanted,
                                   .launch_ends = launch_ends,
                                   .stream_ends = stream_ends,
                                   .may_allocate = may_allocate,
                                   .allocated = allocated,
                                   .not_allocated = not_allocated,
                                   .freeing = freeing,
                                   .not_freed = not_freed,
                                   .mapped = mapped,
                                   .unmapped = unmapped,
                                   .context_ends = context_ends,
                                   .context_ended = context_ended,
                                   .context_stays = context_stays,
                                   .memory_info = memory_info,
                                   .exchanges = exchanges};

}  // namespace

/// What was decided was for the client that it detached before, if there was one.
void adaptor_has_attached() {
    first_launch_ns = 0;
    for (Role before : {Role::kByLaunches, Role::kUngated}) change_role(before, Role::kByAdaptor);
}

Holdings& holdings() {
    static Holdings& all = *new Holdings(limit_from_environment());  // programs free memory until their very end
    return all;
}

}  // namespace salus::library

extern "C" __attribute__((visibility("default"))) const salus::shim::ClientSide* salus_shim_link(std::uint32_t version) {
    if (version != salus::shim::kLinkVersion) return nullptr;
    if (::pthread_atfork(nullptr, nullptr, [] { salus::library::is_child = true; }) != 0) return nullptr;
    return &salus::library::kClientSide;
}
