// Note [Where the service is]
// Every tool, and every client, finds it by the same rule:
// 1. $SALUS_SOCKET, if it is set.
// 2. The machine's service, if there is one and this user may use it. There is one if it listens at kSystemSocket, or if
//    kSystemMark says that it is being restarted. A user may use it who may write to the socket.
// 3. The user's own: `salus/socket` in $XDG_RUNTIME_DIR, else in /run/user/UID, whichever exists and is the user's; else
//    /tmp/salus-UID/socket. If nobody listens there, the socket that the lock in the user's state directory names: a service
//    whose runtime directory was removed by a logout listens elsewhere.
//
// `salus run` sets $SALUS_SOCKET for its job, so that the job and its children stay with the service that they have begun
// with. If that is the user's own, it is still looked for as in 3, because it may move, and jobs may still start it.
#include "os/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "os/file.h"
#include "os/machine.h"
#include "os/socket.h"
#include "os/trust.h"

namespace salus::os {
namespace {

/// Nothing if it is unset or empty.
std::optional<std::string> variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

/// A variable that names a directory for all programs: by the XDG specification, a relative path is invalid.
std::optional<std::string> directory_in(const char* name) {
    const auto value = variable(name);
    return value && value->starts_with('/') ? value : std::nullopt;
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

enum class Owner { kNobody, kUser, kOther };
Owner owner_of(const std::string& directory) {
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) return errno == ENOENT ? Owner::kNobody : Owner::kOther;
    return S_ISDIR(status.st_mode) && status.st_uid == ::getuid() ? Owner::kUser : Owner::kOther;
}

/// They are removed at the end of the user's last session. `su` keeps the variable of another user.
std::vector<std::string> runtime_directories() {
    std::vector<std::string> all;
    if (const auto named = directory_in("XDG_RUNTIME_DIR")) all.push_back(*named);
    all.push_back("/run/user/" + std::to_string(::getuid()));
    return all;
}

std::string socket_in(const std::string& runtime_directory) { return runtime_directory + "/salus/socket"; }
std::string socket_in_tmp() { return directory_without_home() + "/socket"; }

std::string user_socket_in(const std::vector<std::string>& runtime_directories) {
    for (const std::string& directory : runtime_directories) {
        if (owner_of(directory) == Owner::kUser) return socket_in(directory);
    }
    return socket_in_tmp();
}

/// Whether it is where a service of this user listens, or has listened, by the rule.
bool is_users(const std::string& socket, const std::vector<std::string>& all) {
    return socket == socket_in_tmp() || std::any_of(all.begin(), all.end(), [&](const std::string& directory) {
               return socket == socket_in(directory) && owner_of(directory) != Owner::kOther;
           });
}

Service service_at(Whose whose, const std::string& socket) {
    Service found{whose, socket, socket, Error{""}};
    found.connection = connect_to(socket, &found.is_absent);
    found.may_come = found.is_absent && (whose != Whose::kMachines || exists(kSystemMark));
    return found;
}

std::optional<Service> machines() {
    const bool is_up = exists(kSystemMark);
    const bool may_use = exists(kSystemSocket) ? ::access(kSystemSocket, W_OK) == 0 : is_up;
    if (!may_use) return std::nullopt;
    Service found = service_at(Whose::kMachines, kSystemSocket);
    if (found.is_absent && !found.may_come) return std::nullopt;  // it was killed, and nobody restarts it
    return found;
}

}  // namespace

std::string user_socket() { return user_socket_in(runtime_directories()); }

ServiceFinder::ServiceFinder() : runtime_directories_(runtime_directories()), state_(default_state_directory()) {
    if (const auto named = variable("SALUS_SOCKET")) named_ = absolute_path(*named);
}

Service ServiceFinder::find() const {
    if (!named_.empty()) return find_at(named_);
    if (auto found = machines()) return std::move(*found);
    return users_own();
}

Service ServiceFinder::find_at(const std::string& socket) const {
    if (is_users(socket, runtime_directories_)) return users_own();
    return service_at(socket == kSystemSocket ? Whose::kMachines : Whose::kNamed, socket);
}

Service ServiceFinder::users_own() const {
    Service found = service_at(Whose::kOwn, user_socket_in(runtime_directories_));
    if (found.connection) return found;
    const std::string elsewhere = socket_of_holder();
    if (!elsewhere.empty() && elsewhere != found.socket) {
        Service moved = service_at(Whose::kOwn, elsewhere);
        moved.socket = found.socket;
        if (moved.connection) return moved;
    }
    found.is_on_its_way = found.is_absent && is_state_held();
    return found;
}

/// Empty: there is none, or it cannot be trusted.
std::string ServiceFinder::socket_of_holder() const {
    const std::string lock = lock_in(state_);
    if (why_distrusted(lock)) return {};
    const Result<std::string> path = read_file(lock);
    return path && path.value().starts_with('/') ? path.value() : std::string();
}

/// Whether a service holds the lock of the state directory.
bool ServiceFinder::is_state_held() const {
    const std::string path = lock_in(state_);
    if (why_distrusted(path)) return false;
    const Descriptor lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Service find_service() { return ServiceFinder().find(); }
Service find_service_at(const std::string& socket) { return ServiceFinder().find_at(socket); }

std::string lock_in(const std::string& state_directory) { return state_directory + "/lock"; }

std::string user_directory(const char* name, const char* below_home) {
    if (const auto named = directory_in(name)) return *named + "/salus";
    if (const auto home = directory_in("HOME")) return *home + below_home + "/salus";
    return directory_without_home();
}

// Note [State of several machines]
// A home directory may be shared by several machines, each with a service of its own: with its own trace, roster, lock and
// numbers of jobs, and a history, because its device is another one. The directory `salus` belongs to the machine that has
// used it first, which the file `machine` there names; another machine uses `salus/on-HOST`. So a machine that is the only
// one keeps the directory, with all that is there from before this file was written.
namespace {

std::string users_state_directory() { return user_directory("XDG_STATE_HOME", "/.local/state"); }
std::string mark_in(const std::string& directory) { return directory + "/machine"; }

/// Nothing: no machine has claimed it, or it cannot be trusted, which whoever uses it will say.
std::optional<Machine> owner_of_state(const std::string& directory) {
    const std::string mark = mark_in(directory);
    if (why_distrusted(mark)) return std::nullopt;
    const Result<std::string> text = read_file(mark);
    return text ? std::optional(machine_in(text.value())) : std::nullopt;
}

}  // namespace

std::string default_state_directory() {
    if (const auto named = variable("SALUS_STATE")) return absolute_path(*named);
    const std::string directory = users_state_directory();
    const std::optional<Machine> owner = owner_of_state(directory);
    const Machine here = this_machine();
    return !owner || is_same(*owner, here) ? directory : directory + "/on-" + here.host;
}

Result<bool> claim_state_directory() {
    if (variable("SALUS_STATE")) return false;
    const std::string directory = users_state_directory(), mark = mark_in(directory);
    const Result<bool> made = make_private_directory(directory);
    if (!made) return made;
    const Machine here = this_machine();
    const std::optional<Machine> owner = owner_of_state(directory);
    if (owner && (!is_same(*owner, here) || text_of(*owner) == text_of(here))) return false;
    const std::string draft = mark + "." + here.host + "." + std::to_string(::getpid());
    const Result<Written> written = write_file(draft, text_of(here));
    if (!written) return Error{written.error()};
    // Of several machines that come at once, one succeeds. The mark of this machine is renewed: it has started again.
    const bool claimed = owner ? ::rename(draft.c_str(), mark.c_str()) == 0 : ::link(draft.c_str(), mark.c_str()) == 0;
    ::unlink(draft.c_str());
    return claimed;
}

}  // namespace salus::os
