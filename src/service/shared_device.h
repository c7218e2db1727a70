// One device that jobs share, and all that the service keeps for it: its memory, its shell (and in that its engine), its
// trace and roster, and its MPS. A service has a list of these.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "device/device.h"
#include "service/mps.h"
#include "service/options.h"
#include "service/ports.h"
#include "shell/shell.h"

namespace salus::service {

/// What a device needs of the server: its sockets, and its loop.
class ServerLink {
public:
    virtual ~ServerLink() = default;
    using Sent = shell::Connections::Sent;
    virtual Sent send(shell::ConnectionId to, const wire::Message& message, std::span<const int> descriptors) = 0;
    virtual void hang_up(shell::ConnectionId connection) = 0;
    /// Calls SharedDevice::mps_is_gone() when this becomes readable. False, with errno: it cannot.
    virtual bool watch_mps(DeviceId device, int pidfd) = 0;
};

class SharedDevice : private shell::Connections, private shell::DeviceMemory {
public:
    SharedDevice(DeviceId id, const Options& options, std::unique_ptr<device::LaneMemory> memory, ServerLink& server);

    DeviceId id() const { return id_; }
    const device::Traits& traits() const { return memory_->traits(); }
    std::string identity() const override { return memory_->identity(); }
    shell::Shell& shell() { return shell_; }
    const shell::Shell& shell() const { return shell_; }
    const Engine& engine() const { return shell_.engine(); }
    StateJournal& journal() { return journal_; }
    const StateJournal& journal() const { return journal_; }

    // ---- MPS ----
    /// As the policy and --mps want it. What whoever chose the policy should know, in a line; empty: nothing. `unserved`:
    /// jobs that were started without it.
    std::string offer_mps(MpsPatience patience, std::size_t unserved);
    void find_mps_of_earlier_service();
    /// Jobs that use it lose the device, and those that come now are better off without.
    void mps_is_gone();
    /// It runs on, for the jobs that use it.
    void leave_mps();
    /// Where new jobs find it; empty: they run without.
    std::string mps_for_new_jobs() const { return mps_ && offers_mps_ ? mps_->directory() : ""; }
    /// Where jobs that use it found it; empty: there is none.
    std::string mps() const { return mps_ ? mps_->directory() : ""; }

private:
    // ---- shell::Connections ----
    Sent send(shell::ConnectionId to, const wire::Message& message) override { return server_.send(to, message, {}); }
    Result<Sent> send_pieces(shell::ConnectionId to, LaneId lane, std::size_t first, std::size_t end) override;
    void hang_up(shell::ConnectionId connection) override { server_.hang_up(connection); }
    void wake(ControlPage& page) override;

    // ---- shell::DeviceMemory ----
    std::string_view name() const override { return traits().name; }
    Bytes capacity() const override { return memory_->capacity(); }
    Result<bool> provide(LaneId lane, Bytes size) override { return memory_->provide(lane, size); }
    std::size_t pieces_for(Bytes size) const override { return memory_->pieces_for(size); }
    void trim(LaneId lane, Bytes size) override { memory_->trim(lane, size); }
    void release(LaneId lane) override { memory_->release(lane); }
    bool renew(LaneId lane) override { return memory_->renew(lane); }
    bool is_mapped_in(int pid) const override { return memory_->is_mapped_in(pid); }
    std::optional<Usage> usage(const std::vector<int>& clients) const override;

    std::string mps_directory() const { return directory_ + "/mps"; }
    void take_mps(std::unique_ptr<Mps> mps);

    const DeviceId id_;
    ServerLink& server_;
    const std::string directory_;  ///< for its files
    const unsigned lanes_option_;
    const MpsMode mps_mode_;
    std::unique_ptr<device::LaneMemory> memory_;
    const shell::Settings settings_;
    MonotonicClock clock_;
    KernelProcesses processes_;
    StateJournal journal_;
    shell::Shell shell_;
    std::unique_ptr<Mps> mps_;  ///< none: it was never wanted, or failed
    bool offers_mps_ = false;   ///< to new jobs
};

/// The devices that a service shares: the GPU, if there is one whose memory can be shared, else the host; or what was asked
/// for. An error, in a line, if there is no such device.
Result<std::vector<std::unique_ptr<device::LaneMemory>>> open_devices(const std::string& wanted);

}  // namespace salus::service
