// Note [Processes that join by themselves]
// A process with SALUS_SOCKET in its environment and no SALUS_JOB joins: no `salus run` has announced it, nor has the
// process that started it. The adaptor does it before CUDA starts, from where Ctrl-C can end the wait; the shim before
// cuInit, for everything else. `salus run` that reaches no service sets SALUS_JOB=0, so its processes do not join.
//
// The process then has SALUS_JOB for its children. exec() keeps that, too: what it becomes attaches to the same number, but
// the job that was announced has ended.
#include "library/joined.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "client/joining.h"
#include "library/process.h"
#include "os/clock.h"
#include "os/environment.h"
#include "os/patience.h"
#include "os/poll.h"
#include "wire/framing.h"

namespace salus::library {
namespace {

struct Joined {
    client::Joining joining;
    int pid = 0;  ///< a child of fork() is not the job, but belongs to it
    std::uint64_t started_ns = 0;
    std::string name;
    bool is_placed = false;  ///< for good: its environment says where
};

std::mutex mutex;
/// In a child of fork() nobody holds it: the thread that did is not there.
const int fork_handler = ::pthread_atfork(nullptr, nullptr, [] { new (&mutex) std::mutex; });
/// Never destroyed: the process may end at any time, and its end needs it.
std::atomic<Joined*> who_joined{nullptr};
std::atomic<bool> is_refused{false};

/// nullptr: this process has not joined.
Joined* of_this_process() {
    Joined* const joined = who_joined.load();
    return joined && joined->pid == ::getpid() ? joined : nullptr;
}

bool is_set(const char* name) {
    const char* const value = std::getenv(name);
    return value && *value;
}

/// What `salus run` sets for its command, as far as it matters from here on. A device that somebody has chosen stays, and
/// so does the choice of none. CUDA and the children of this process read it nowhere else.
void set_environment(const wire::Running& running) {
    std::vector<std::pair<std::string, std::string>> variables = {{"SALUS_JOB", std::to_string(running.job)},
                                                                  {"SALUS_DEVICE", std::string(running.device.view())}};
    const std::string gpu(running.gpu.view()), mps(running.mps.view());
    const bool is_gpu = running.device.view() == "cuda" && !gpu.empty();
    if (is_gpu && !std::getenv("CUDA_VISIBLE_DEVICES")) variables.emplace_back("CUDA_VISIBLE_DEVICES", gpu);
    if (!mps.empty()) {
        for (const char* name : {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}) variables.emplace_back(name, mps);
    }
    os::set_variables(variables);
}

/// The only place where a process learns its own exit status. If it ends in another way, the service sees that it is gone.
void at_exit(int status, void*) {
    Joined* const joined = of_this_process();
    if (!joined) return;
    const wire::Ended end{status & 0xff, os::now_ns() - joined->started_ns};
    if (const int connection = joined->joining.connection(); connection >= 0) wire::send(connection, end);
    else if (const ClientInUse client; client) client->ends(end);
}

/// As join(). REQUIRES: the mutex is held.
Result<bool> try_to_join(const std::string& name, const std::string& key, Duration at_most, const sigset_t* signals) {
    Joined* joined = of_this_process();
    if (!joined) {
        wire::Run run = client::describe_process(name, key);
        auto fresh = std::make_unique<Joined>(Joined{client::Joining(run), ::getpid(), os::now_ns(), {}, false});
        const Result<bool> announced = fresh->joining.announce();
        static const Instant first_try = os::now();
        if (!announced && fresh->joining.may_come() && os::now() < first_try + os::start_wait()) {
            os::readable_of({}, std::min(at_most, milliseconds(20)), signals);
            return false;
        }
        if (!announced) return announced;
        fresh->name = std::string(run.name.view());
        who_joined = joined = fresh.release();
        static const int registered = ::on_exit(at_exit, nullptr);
        static_cast<void>(registered);
    }
    const Result<bool> may_start = joined->joining.wait(at_most, signals);
    if (!may_start) who_joined = nullptr;
    if (!may_start || !may_start.value()) return may_start;
    if (!std::exchange(joined->is_placed, true)) set_environment(joined->joining.running());
    return true;
}

}  // namespace

bool should_join() { return is_set("SALUS_SOCKET") && !is_set("SALUS_JOB"); }
bool has_joined() { return of_this_process() != nullptr; }
bool was_refused() { return is_refused; }

Result<bool> join(const std::string& name, const std::string& key, Duration at_most, const sigset_t* signals) {
    if (!of_this_process() && is_set("SALUS_JOB")) return true;
    const std::lock_guard lock(mutex);
    const Result<bool> joined = try_to_join(name, key, at_most, signals);
    is_refused = !joined;
    return joined;
}

void identify_joined(client::Identity& identity) {
    Joined* const joined = of_this_process();
    if (!joined) return;
    const std::lock_guard lock(mutex);
    identity.announcement = joined->joining.announcement();
    identity.announced = joined->joining.take_connection();
    identity.attach.job = identity.announcement->job;
    identity.attach.name = wire::Text<64>(joined->name);
}

void outlive_client() {
    Joined* const joined = of_this_process();
    if (!joined) return;
    const std::lock_guard lock(mutex);
    if (joined->joining.connection() < 0) joined->joining.announce_beside_client();
}

}  // namespace salus::library
