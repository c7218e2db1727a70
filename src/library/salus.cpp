// The C interface: checks arguments, lets no exception out, keeps the text of the last error.
#include "salus/salus.h"

#include <errno.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/text.h"
#include "client/process_client.h"
#include "device/cuda/driver.h"
#include "interpose/allocator.h"
#include "library/joined.h"
#include "library/process.h"
#include "os/places.h"
#include "os/socket.h"
#include "os/trust.h"
#include "wire/framing.h"

namespace {

using salus::client::Identity;
using salus::client::Kind;

constexpr const char* kTooLarge = "this job is too large for the device";

/// How long salus_detach waits for launches that are under way.
constexpr salus::Duration kLaunchPatience = salus::seconds(1);

using salus::library::the_client;

std::atomic<salus_client*> client_of_process{nullptr};
std::atomic<salus_client*> client_that_attached{nullptr};
thread_local char error_text[256] = "";

salus_status failed(salus_status status, const char* why) {
    std::strncpy(error_text, why, sizeof error_text - 1);
    return status;
}

const char* environment(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

double number_from(const char* name, double otherwise) {
    const char* text = environment(name);
    return text ? salus::parse_number(text).value_or(otherwise) : otherwise;
}

std::string program_name() { return ::program_invocation_short_name ? ::program_invocation_short_name : "job"; }

/// Takes each value from the options, else from the environment that `salus run` sets, else the default.
Identity identity_from(const salus_options& options) {
    Identity identity;
    if (options.socket) identity.socket = salus::os::absolute_path(options.socket);
    salus::wire::Attach& attach = identity.attach;
    const char* name = options.name ? options.name : environment("SALUS_NAME");
    std::string printable = name ? name : program_name();
    std::replace_if(
        printable.begin(), printable.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    attach.name = salus::wire::Text<64>(printable);
    attach.job = static_cast<std::uint32_t>(number_from("SALUS_JOB", 0));
    salus::library::identify_joined(identity);
    attach.priority = options.priority != 0 ? options.priority : static_cast<std::int32_t>(number_from("SALUS_PRIORITY", 0));
    attach.weight = options.weight > 0 ? options.weight : number_from("SALUS_WEIGHT", 1);
    attach.occupancy = options.occupancy > 0 ? options.occupancy : number_from("SALUS_OCCUPANCY", 1);
    attach.iterations_total =
        options.iterations > 0 ? options.iterations : static_cast<std::uint64_t>(number_from("SALUS_ITERATIONS", 0));
    attach.iteration_time_ns =
        options.iteration_ns > 0 ? options.iteration_ns : static_cast<std::uint64_t>(number_from("SALUS_ITERATION_NS", 0));
    attach.persistent = options.persistent_hint > 0 ? options.persistent_hint
                                                    : static_cast<std::uint64_t>(number_from("SALUS_PERSISTENT_HINT", 0));
    attach.ephemeral = options.ephemeral_hint > 0 ? options.ephemeral_hint
                                                  : static_cast<std::uint64_t>(number_from("SALUS_EPHEMERAL_HINT", 0));
    const char* client_class = options.client_class ? options.client_class : environment("SALUS_CLASS");
    const std::string_view said = client_class ? client_class : "";
    if (said == "interactive") attach.flags |= salus::wire::Attach::kInteractive;
    if (said == "interactive" || said == "batch") attach.flags |= salus::wire::Attach::kClassSaid;
    else if (!said.empty())
        std::fprintf(stderr, "salus: the class must be batch or interactive; '%s' is ignored\n", client_class);
    if (attach.persistent > 0 && attach.ephemeral > 0) attach.flags |= salus::wire::Attach::kProfiled;
    return identity;
}

constinit thread_local salus_client* forks_with = nullptr;  ///< another thread may detach it meanwhile

void before_fork() {
    salus::client::begin_use();
    forks_with = salus::library::attached_client();
    if (forks_with) forks_with->client.before_fork();
}
void after_fork_in_parent() {
    if (forks_with) forks_with->client.after_fork_in_parent();
    salus::client::end_use();
}
/// While the child was made, another thread may have attached, or may have been about to.
void after_fork_in_child() {
    if (forks_with) forks_with->client.after_fork_in_child();
    salus_client* const now = the_client();
    if (now && now != forks_with) now->client.after_fork_in_child();
    salus::client::end_use();
    salus::client::forget_other_users();
}

void before_exit() {
    if (const salus::library::ClientInUse client; client) client->exits();
}

/// No thread finds it any more.
void take_away(salus_client* client) {
    for (std::atomic<salus_client*>* const place : {&client_that_attached, &client_of_process}) {
        salus_client* self = client;
        place->compare_exchange_strong(self, nullptr);
    }
}

/// Runs `call`. If it throws, the client leaves the service, and the result is `otherwise`.
template <typename Result, typename Call>
Result guarded(salus_client* client, Result otherwise, const Call& call) {
    try {
        return call();
    } catch (const std::exception& error) {
        failed(SALUS_SYSTEM, error.what());
        client->client.fail(error.what());
    } catch (...) {
        failed(SALUS_SYSTEM, "an unknown error");
        client->client.fail("an unknown error");
    }
    return otherwise;
}

/// Why there was no memory for a block of this size.
std::string why_out_of_memory(std::uint64_t size) {
    salus::library::Holdings& holdings = salus::library::holdings();
    if (holdings.fits_beside(size)) return "out of memory";
    return "That would exceed the limit of " + std::to_string(holdings.limit() >> 20) +
           " MiB that salus run --memory has set.";
}

/// See salus_attach.
salus_status attach(Identity identity, salus_client** client) {
    static const salus::CheckHandler before = salus::set_check_handler(salus::throw_check_failure);
    static_cast<void>(before);
    if (salus::library::holdings().limit() > 0) identity.limit = &salus::library::holdings();
    auto made = std::make_unique<salus_client>(std::move(identity));
    const char* text = environment("SALUS_DISABLE");
    const bool disabled = text && std::strcmp(text, "0") != 0;
    salus_client* nobody = nullptr;  // threads may attach at once
    if (!disabled && !client_of_process.compare_exchange_strong(nobody, made.get()))
        return failed(SALUS_MISUSE, "this process is already attached");
    *client = made.release();
    if (disabled) return SALUS_OK;
    static const int registered = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    if (registered != 0) return failed(SALUS_SYSTEM, "cannot install fork handlers");
    const salus::Result<bool> attached = (*client)->client.attach();
    // Registered after the driver was started, so that it runs before the driver's own exit handler. If it cannot be
    // registered, others wait a little longer.
    static const int at_exit = std::atexit(before_exit);
    static_cast<void>(at_exit);
    if (!attached) return failed(SALUS_NO_SERVICE, attached.error().c_str());
    client_that_attached = *client;
    return SALUS_OK;
}

}  // namespace

namespace salus::library {

salus_client* the_client() { return client_of_process.load(); }
salus_client* attached_client() { return client_that_attached.load(std::memory_order_acquire); }

salus_client* attach_without_memory(std::uint64_t holds, std::string& why_not) {
    try {
        Identity identity = identity_from({});
        identity.without_memory = true;
        identity.holds = holds;
        salus_client* client = nullptr;
        const salus_status status = attach(std::move(identity), &client);
        if (status == SALUS_OK) return client;
        if (status == SALUS_MISUSE) return nullptr;
    } catch (const std::exception& error) {
        failed(SALUS_SYSTEM, error.what());
    }
    why_not = error_text;
    return nullptr;
}

void tell_unshared(const std::string& why) {
    const auto job = static_cast<std::uint32_t>(number_from("SALUS_JOB", 0));
    if (job == 0) return;
    const os::Service service = os::find_service();
    if (service.connection) wire::send(service.connection.value().get(), wire::Unshared{job, wire::Text<160>(why)});
}

void* current_context() {
    const Result<const device::cuda::Driver*> driver = device::cuda::driver();
    device::cuda::Context context = nullptr;
    return driver && driver.value()->get_current(&context) == device::cuda::kSuccess ? context : nullptr;
}

}  // namespace salus::library

extern "C" {

salus_status salus_attach(const salus_options* options, salus_client** client) {
    if (!client) return failed(SALUS_MISUSE, "no place for the client");
    *client = nullptr;
    salus_options all{};
    if (options) std::memcpy(&all, options, std::min(options->size, sizeof all));
    try {
        const salus_status status = attach(identity_from(all), client);
        if (status == SALUS_OK) salus::library::adaptor_has_attached();
        return status;
    } catch (const std::exception& error) {
        return failed(SALUS_SYSTEM, error.what());
    }
}

salus_status salus_announce_within(const char* name, const char* key, uint64_t nanoseconds) {
    try {
        const salus::Duration at_most{static_cast<std::int64_t>(std::min<std::uint64_t>(nanoseconds, INT64_MAX / 2))};
        const salus::Result<bool> may_start = salus::library::join(name ? name : "", key ? key : "", at_most);
        if (!may_start) return failed(SALUS_NO_SERVICE, may_start.error().c_str());
        return may_start.value() ? SALUS_OK : SALUS_WAITING;
    } catch (const std::exception& error) {
        return failed(SALUS_SYSTEM, error.what());
    }
}

uint32_t salus_job(void) { return static_cast<uint32_t>(number_from("SALUS_JOB", 0)); }

const char* salus_job_device(void) {
    const char* const device = environment("SALUS_DEVICE");
    return device ? device : "";
}

salus_status salus_begin(salus_client* client) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    const salus_status status = guarded(client, SALUS_SYSTEM, [&] { return client->client.begin(); });
    return status == SALUS_TOO_LARGE ? failed(status, kTooLarge) : status;
}

salus_status salus_begin_within(salus_client* client, uint64_t nanoseconds, uint64_t kind) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    const salus_status status = guarded(client, SALUS_SYSTEM, [&] { return client->client.begin_once(nanoseconds, kind); });
    return status == SALUS_TOO_LARGE ? failed(status, kTooLarge) : status;
}

salus_status salus_join_within(salus_client* client, uint64_t nanoseconds, uint64_t kind) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    const salus_status status =
        guarded(client, SALUS_SYSTEM, [&] { return client->client.begin_once(nanoseconds, kind, /*join=*/true); });
    return status == SALUS_TOO_LARGE ? failed(status, kTooLarge) : status;
}

salus_status salus_forgo(salus_client* client) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    return guarded(client, SALUS_SYSTEM, [&] { return client->client.forgo(), SALUS_OK; });
}

salus_status salus_end(salus_client* client) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    const salus_status status = guarded(client, SALUS_SYSTEM, [&] { return client->client.end(); });
    return status == SALUS_MISUSE ? failed(status, "salus_end without salus_begin") : status;
}

salus_status salus_leave(salus_client* client, uint64_t iterations) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    const salus_status status = guarded(client, SALUS_SYSTEM, [&] {
        return client->client.end({iterations, /*own=*/true});
    });
    return status == SALUS_MISUSE ? failed(status, "salus_leave without salus_begin") : status;
}

salus_status salus_leave_after(salus_client* client, uint64_t iterations, salus_work work) {
    if (!client || work < SALUS_WORK_OTHER || work > SALUS_WORK_ANSWER)
        return failed(SALUS_MISUSE, "no client, or no such work");
    const salus_status status = guarded(client, SALUS_SYSTEM, [&] {
        return client->client.end({iterations, /*own=*/true}, static_cast<salus::client::Work>(work));
    });
    return status == SALUS_MISUSE ? failed(status, "salus_leave_after without salus_begin") : status;
}

void salus_fetched(salus_client* client) {
    if (client) client->client.fetched();
}

salus_status salus_count(salus_client* client, uint64_t iterations) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    client->client.count(iterations);
    return SALUS_OK;
}

void* salus_alloc(salus_client* client, size_t size, salus_kind kind) {
    if (!client || kind < SALUS_PERSISTENT || kind > SALUS_AUTO) {
        failed(SALUS_MISUSE, "no client, or no such kind of memory");
        return nullptr;
    }
    void* block =
        guarded(client, static_cast<void*>(nullptr), [&] { return client->client.allocate(size, static_cast<Kind>(kind)); });
    if (!block) failed(SALUS_SYSTEM, "out of memory");
    return block;
}

void salus_free(salus_client* client, void* block) {
    if (!client || !block) return;
    guarded(client, 0, [&] {
        client->client.free(block);
        return 0;
    });
}

int salus_in_lane(salus_client* client, const void* block) {
    return client && guarded(client, false, [&] { return client->client.in_lane(block); }) ? 1 : 0;
}

int salus_device_ordinal(salus_client* client) { return client ? client->client.device_ordinal() : 0; }

const char* salus_device(salus_client* client) { return client ? client->client.device().c_str() : "host"; }

salus_status salus_alloc_on(salus_client* client, size_t size, void* stream, int on_behalf, void** block) {
    if (!client || !block) return failed(SALUS_MISUSE, "no client, or no place for the block");
    *block = nullptr;
    return guarded(client, SALUS_OK, [&] {
        const auto given = client->client.allocate_on(reinterpret_cast<std::uintptr_t>(stream), size, on_behalf != 0);
        if (given) *block = *given;
        return !given || *given ? SALUS_OK : failed(SALUS_TOO_LARGE, why_out_of_memory(size).c_str());
    });
}

void salus_used_on(salus_client* client, const void* block, void* stream) {
    if (!client || !block) return;
    guarded(client, 0, [&] {
        client->client.used_on(block, reinterpret_cast<std::uintptr_t>(stream));
        return 0;
    });
}

void salus_wait_for_stream(salus_client* client, void* stream) {
    if (!client) return;
    guarded(client, 0, [&] {
        client->client.wait_for_stream(reinterpret_cast<std::uintptr_t>(stream));
        return 0;
    });
}

int salus_owns(salus_client* client, const void* address) { return client && client->client.owns(address) ? 1 : 0; }

salus_status salus_get_usage(salus_client* client, salus_usage* usage) {
    if (!client || !usage) return failed(SALUS_MISUSE, "no client, or no place for the usage");
    salus_usage all{};
    all.size = std::min(usage->size, sizeof all);
    if (salus::client::Memory* memory = client->client.memory()) {
        const auto now = memory->usage();
        all.in_use = now.in_use;
        all.in_use_peak = now.in_use_peak;
        all.reserved = now.reserved;
        all.reserved_peak = now.reserved_peak;
        all.allocations = now.allocations;
        all.frees = now.frees;
        all.allocated = now.allocated;
        all.freed = now.freed;
    }
    std::memcpy(usage, &all, all.size);
    return SALUS_OK;
}

void salus_reset_peaks(salus_client* client) {
    if (client && client->client.memory()) client->client.memory()->reset_peaks();
}

uint64_t salus_give_back(salus_client* client) {
    return client ? guarded(client, uint64_t{0}, [&] { return client->client.give_back(); }) : 0;
}

salus_status salus_interpose(salus_client* client, const char* library) {
    if (!client || !library || client != the_client()) return failed(SALUS_MISUSE, "no client, or no library");
    return guarded(client, SALUS_SYSTEM, [&] {
        const salus::Result<bool> done = salus::interpose::allocator_of(library, client->client);
        return done ? SALUS_OK : failed(SALUS_MISUSE, done.error().c_str());
    });
}

salus_status salus_set_threaded(salus_client* client, int threaded) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    return guarded(client, SALUS_SYSTEM, [&] { return client->client.set_threaded(threaded != 0), SALUS_OK; });
}

salus_status salus_delegate(salus_client* client, int delegates) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    client->client.delegate(delegates != 0);
    return SALUS_OK;
}

salus_status salus_get_counters(salus_client* client, salus_counters* counters) {
    if (!client || !counters) return failed(SALUS_MISUSE, "no client, or no place for the counters");
    salus_counters all{};
    all.size = std::min(counters->size, sizeof all);
    client->client.read_counters(all);
    std::memcpy(counters, &all, all.size);
    return SALUS_OK;
}

salus_status salus_stop_sharing(salus_client* client) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    return guarded(client, SALUS_SYSTEM, [&] {
        salus::library::outlive_client();
        client->client.stop_sharing();
        return SALUS_OK;
    });
}

void salus_tell_unshared(const char* why) {
    if (why) salus::library::tell_unshared(why);
}

salus_status salus_detach(salus_client* client) {
    if (!client) return failed(SALUS_MISUSE, "no client");
    if (salus::interpose::uses(client->client)) return failed(SALUS_MISUSE, "a library allocates from this client");
    guarded(client, 0, [] { return salus::library::outlive_client(), 0; });
    if (!client->client.detach()) return failed(SALUS_MISUSE, "a thread is inside an iteration");
    take_away(client);
    if (client->client.must_stay()) return SALUS_OK;
    client->client.stop();
    if (salus::client::wait_for_users(kLaunchPatience)) delete client;  // else it stays for them, for good
    return SALUS_OK;
}

const char* salus_error_text(void) { return error_text; }

}  // extern "C"
