// One device that jobs share, with everything that the service keeps for it: memory, shell (which contains the engine),
// trace, roster and MPS. A service has a list of these.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "device/device.h"
#include "service/mps.h"
#include "service/options.h"
#include "service/ports.h"
#include "shell/shell.h"

namespace salus::service {

/// What a device needs from the server: its sockets and its loop.
class ServerLink {
public:
    virtual ~ServerLink() = default;
    using Sent = shell::Connections::Sent;
    virtual Sent send(shell::ConnectionId to, const wire::Message& message, std::span<const int> descriptors) = 0;
    virtual void hang_up(shell::ConnectionId connection) = 0;
    /// Calls SharedDevice::mps_is_gone() when `pidfd` becomes readable. False, with errno, if it cannot be watched.
    virtual bool watch_mps(DeviceId device, int pidfd) = 0;
};

class SharedDevice : private shell::Connections, private shell::DeviceMemory {
public:
    /// `name`: in its trace, if the service has several devices.
    SharedDevice(DeviceId id, const Options& options, std::unique_ptr<device::LaneMemory> memory, ServerLink& server,
                 const std::string& name = {});

    DeviceId id() const { return id_; }
    /// By which its users name it: a GPU's in the order of the PCI bus.
    unsigned number() const { return number_; }
    /// For people: its UUID, or else what kind of device it is.
    std::string label() const { return identity().empty() ? std::string(traits().name) : identity(); }
    const device::Traits& traits() const { return memory_->traits(); }
    Bytes total() const { return memory_->total(); }
    std::optional<unsigned> gpu_index() const { return memory_->index(); }
    /// As DeviceStatus::busy_share.
    std::optional<double> busy_share(Instant at) const;
    std::string identity() const override { return memory_->identity(); }
    shell::Shell& shell() { return shell_; }
    const shell::Shell& shell() const { return shell_; }
    const Engine& engine() const { return shell_.engine(); }
    StateJournal& journal() { return journal_; }
    const StateJournal& journal() const { return journal_; }

    /// Takes over what can change while the service runs, except for the policy.
    void change(const Options& options);

    /// The processes that use the device and are no clients.
    std::vector<int> strangers() const;

    // ---- loss ----
    /// Asks the device whether it is still there, if none of its clients does.
    void look_whether_there();
    bool is_lost() const { return memory_->is_lost(); }
    /// It takes no newcomers any more.
    void close(std::string why) { why_closed_ = std::move(why); }
    bool is_closed() const { return !why_closed_.empty(); }
    const std::string& why_closed() const { return why_closed_; }

    // ---- MPS ----
    /// Starts MPS if the policy and --mps want it. Returns one line for the person who chose the policy, or nothing.
    /// `unserved`: the number of jobs that run without MPS.
    /// `helps`: as measured; nothing where overlap is not measured.
    std::string offer_mps(MpsPatience patience, std::size_t unserved, std::optional<bool> helps);
    void find_mps_of_earlier_service();
    /// The daemon has ended. Jobs that use it lose the device; new jobs run without it.
    void mps_is_gone();
    /// The service ends, but jobs still use the daemon: it keeps running.
    void leave_mps();
    /// The directory of the daemon's pipes, for new jobs. Empty: they run without it.
    std::string mps_for_new_jobs() const { return mps_ && offers_mps_ ? mps_->directory() : ""; }
    /// The same, for jobs that were started with it. Empty: it is gone.
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
    bool has_gates() const override { return memory_->traits().has_gates; }
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
    unsigned lanes_option_;
    const MpsMode mps_mode_;
    const bool all_users_;
    std::unique_ptr<device::LaneMemory> memory_;
    const unsigned number_;
    std::string why_closed_;  ///< empty: it is open
    /// The GPU is not asked at each scrape: that takes up to milliseconds.
    struct Asked {
        Instant at;
        std::optional<double> share;
    };
    mutable std::optional<Asked> asked_busy_;
    const shell::Settings settings_;
    MonotonicClock clock_;
    KernelProcesses processes_;
    StateJournal journal_;
    shell::Shell shell_;
    std::unique_ptr<Mps> mps_;  ///< none: it was never wanted, failed, or has ended
    bool offers_mps_ = false;   ///< to new jobs
};

/// The devices that a service shares, GPUs in the order of the PCI bus. "auto": the GPUs whose memory can be shared, if
/// there are any, else the host. An error, in one line, if the wanted device does not exist.
Result<std::vector<std::unique_ptr<device::LaneMemory>>> open_devices(const std::string& wanted);

}  // namespace salus::service
