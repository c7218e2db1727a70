// Where Salus keeps a user's sockets and files, and where the service is. All paths are absolute.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/descriptor.h"

namespace salus::os {

/// Where a user's own service listens, whether or not one runs.
std::string user_socket();
inline constexpr const char* kSystemSocket = "/run/salus/socket";
/// There while the system's service runs or restarts, when its socket may be missing (packaging/salusd.service.in).
inline constexpr const char* kSystemMark = "/run/salus/up";

/// Who starts the service: for kOwn any job of the user, otherwise only an administrator.
enum class Whose { kOwn, kMachines, kNamed };

/// What Note [Where the service is] leads to.
struct Service {
    Whose whose = Whose::kOwn;
    std::string socket;             ///< of the place; find_service_at() finds the same service by it, also later
    std::string at;                 ///< where it listens: elsewhere if a user's own service had to move
    Result<Descriptor> connection;  ///< as of connect_to()
    bool is_absent = false;         ///< nothing listens there, now
    bool may_come = false;          ///< ... and nobody has stopped the machine's service for good
    bool is_on_its_way = false;     ///< ... but the user's own runs, and listens in a moment: it starts, or had to move
};

/// Knows the environment as it was when it was made: a job's threads may change it at any time.
class ServiceFinder {
public:
    ServiceFinder();
    Service find() const;
    /// The service that a job was started with: it stays with it.
    Service find_at(const std::string& socket) const;

private:
    Service users_own() const;
    std::string socket_of_holder() const;
    bool is_state_held() const;

    std::string named_;                             ///< empty: by the rule
    std::vector<std::string> runtime_directories_;  ///< where the user's may be
    std::string state_;
};
/// In the environment as it is.
Service find_service();
Service find_service_at(const std::string& socket);

/// The lock of a state directory. It holds the path of its holder's socket.
std::string lock_in(const std::string& state_directory);

/// The directory of Salus below the one that the variable names, else below the user's home, else in /tmp.
std::string user_directory(const char* variable, const char* below_home);
/// Where a service keeps trace, logs and history unless told otherwise: $SALUS_STATE, else the user's on this machine:
/// Note [State of several machines].
std::string default_state_directory();
/// From now on, the user's state directory is that of this machine, unless it is another one's already. For whoever writes
/// to the default one; an error is one line.
Result<bool> claim_state_directory();

}  // namespace salus::os
