// Makes a process that nobody has announced a job of its own: does inside of it what `salus run` does around a command.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"
#include "os/places.h"
#include "wire/messages.h"

namespace salus::client {

/// Not thread-safe.
class Joining {
public:
    /// `run`: what the process says of itself.
    explicit Joining(wire::Run run, os::ServiceFinder finder = {});

    /// Tells the service. An error is one line: the process cannot join.
    Result<bool> announce();
    /// Why announce() has failed: the service is being restarted.
    bool may_come() const { return may_come_; }
    /// Waits until there is room for the process, with these signals blocked. False: not yet, or a signal has come. An error
    /// is one line: it would wait in vain, and is no job any more. REQUIRES: announce().
    Result<bool> wait(Duration at_most, const sigset_t* signals = nullptr);

    /// As the service has answered.
    const wire::Running& running() const { return running_; }
    /// After the connection was taken: a new one, over which the service hears of the end of the process.
    void announce_beside_client();
    /// The announcement as the client repeats it to the next service.
    wire::Run announcement() const;
    /// The connection over which the process attaches; empty if it was taken before, or lost.
    os::Descriptor take_connection() { return std::move(connection_); }
    int connection() const { return connection_.get(); }

private:
    bool hear();
    void announce_again();
    void refused(std::string why);

    wire::Run run_;
    os::ServiceFinder finder_;
    os::Descriptor connection_;
    wire::Running running_;
    bool may_come_ = false;
    bool is_final_ = false;  ///< why announce() has failed would be the same again
    bool waits_ = false;
    std::optional<std::string> refusal_;  ///< while it waited
    bool told_ = false;                   ///< the user, that it waits
    Instant lost_at_ = kNever;
};

/// What this process says of itself, from its own command line and directory and the environment. The arguments come first,
/// if they are not empty: `key` names the command in the history instead of its words.
wire::Run describe_process(std::string name, std::string key);

}  // namespace salus::client
