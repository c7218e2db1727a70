// What the shell needs of the world. The service implements these ports with the machine's clock, processes and files
// (service/ports.h) and with sockets and a device (service/shared_device.h); the simulator implements them with a world in
// virtual time (sim/world.h). The shell cannot tell them apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/log_level.h"
#include "base/result.h"
#include "base/time.h"
#include "core/types.h"
#include "shell/roster.h"
#include "wire/control_page.h"
#include "wire/messages.h"

namespace salus::shell {

class Clock {
public:
    virtual ~Clock() = default;
    /// The same in every process of the machine; never goes back.
    virtual Instant now() const = 0;
};

/// Numbers of connections are never reused.
using ConnectionId = std::uint32_t;

/// Sends to clients.
class Connections {
public:
    virtual ~Connections() = default;
    enum class Sent : std::uint8_t { kYes, kFull, kGone };
    /// Does not wait. kFull: the client does not read.
    virtual Sent send(ConnectionId to, const wire::Message& message) = 0;
    /// Sends LanePieces with the descriptors of pieces [first, end) of the lane.
    virtual Result<Sent> send_pieces(ConnectionId to, LaneId lane, std::size_t first, std::size_t end) = 0;
    virtual void hang_up(ConnectionId connection) = 0;
    /// Wakes the threads that wait on the word.
    virtual void wake(ControlPage& page) = 0;
};

/// The device's memory: the lanes, and what the device reports about its users.
class DeviceMemory {
public:
    virtual ~DeviceMemory() = default;
    virtual std::string_view name() const = 0;
    /// A GPU's UUID.
    virtual std::string identity() const = 0;
    virtual Bytes capacity() const = 0;
    /// Whether clients can put gates into their work: Note [Gates] in wire/gate_page.h.
    virtual bool has_gates() const = 0;

    /// Makes the lane at least this large.
    virtual Result<bool> provide(LaneId lane, Bytes size) = 0;
    /// The number of pieces of memory in a lane of this size.
    virtual std::size_t pieces_for(Bytes size) const = 0;
    /// Nobody needs the lane's memory beyond `size` any more.
    virtual void trim(LaneId lane, Bytes size) = 0;
    virtual void release(LaneId lane) = 0;
    /// Gives the lane other memory, because work of a dead process may still go on in the old. False if not possible.
    virtual bool renew(LaneId lane) = 0;
    /// Whether a process still has lane memory mapped. True if nobody can tell.
    virtual bool is_mapped_in(int pid) const = 0;

    struct Usage {
        Bytes others;                  ///< used by processes that are not in `clients`, without lanes
        std::map<int, Bytes> clients;  ///< by pid, without lanes
    };
    /// Nothing for a device on which clients report all their memory.
    virtual std::optional<Usage> usage(const std::vector<int>& clients) const = 0;
};

/// What the kernel knows about processes.
class Processes {
public:
    virtual ~Processes() = default;
    virtual bool is_alive(const ProcessId& process) const = 0;
    /// Stopped by a signal or a debugger.
    virtual bool is_stopped(int pid) const = 0;
    /// The processor time of all its threads together.
    virtual Duration cpu_time_of(int pid) const = 0;
    /// Whether a thread of it runs, or waits for a processor or a disk.
    virtual bool is_busy(int pid) const = 0;
};

/// What the shell records.
class Journal {
public:
    virtual ~Journal() = default;
    virtual void record(const Event& event, Instant at, std::span<const Action> actions) = 0;
    virtual void name_client(ClientId client, std::uint32_t job, std::string_view name) = 0;
    virtual std::vector<RosterEntry> read_roster() = 0;
    virtual bool write_roster(const std::vector<RosterEntry>& entries) = 0;

    virtual bool logs(LogLevel level) const = 0;
    virtual void log(LogLevel level, std::string_view line) = 0;
    /// For lines that a client can cause as often as it likes. Not all of them are written.
    virtual void log_of_peer(LogLevel level, std::string_view line) = 0;
};

struct Ports {
    const Clock& clock;
    Connections& connections;
    DeviceMemory& memory;
    const Processes& processes;
    Journal& journal;
};

}  // namespace salus::shell
