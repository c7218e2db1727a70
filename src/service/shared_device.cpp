#include "service/shared_device.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "device/cuda/cuda_lane_memory.h"
#include "device/host/host_lane_memory.h"
#include "os/futex.h"
#include "service/log.h"
#include "service/startup.h"

namespace salus::service {
namespace {

Result<std::unique_ptr<device::LaneMemory>> open_device(const std::string& wanted) {
    if (wanted == "host") return device::make_host_lane_memory();
    const Result<device::cuda::Gpu> gpu = device::cuda::open_gpu();
    if (gpu) {
        log(LogLevel::kInfo, "{}, {}", gpu.value().name, gpu.value().uuid);
        return device::make_cuda_lane_memory(gpu.value());
    }
    if (wanted == "cuda") return Error{gpu.error()};
    log(LogLevel::kInfo, "{}: jobs share the host's memory", gpu.error());
    return device::make_host_lane_memory();
}

}  // namespace

Result<std::vector<std::unique_ptr<device::LaneMemory>>> open_devices(const std::string& wanted) {
    Result<std::unique_ptr<device::LaneMemory>> device = open_device(wanted);
    if (!device) return Error{device.error()};
    std::vector<std::unique_ptr<device::LaneMemory>> devices;
    devices.push_back(std::move(device).value());
    return devices;
}

SharedDevice::SharedDevice(DeviceId id, const Options& options, std::unique_ptr<device::LaneMemory> memory,
                           ServerLink& server)
    : id_(id),
      server_(server),
      directory_(directory_of(options, id)),
      lanes_option_(options.lanes),
      mps_mode_(options.mps),
      all_users_(options.all_users),
      memory_(std::move(memory)),
      settings_(settings_from(options, *memory_)),
      journal_(directory_, options.trace_limit, format_header(settings_.engine, options.policy)),
      shell_(settings_, shell::Ports{clock_, *this, *this, processes_, journal_}) {}

void SharedDevice::change(const Options& options) {
    lanes_option_ = options.lanes;
    journal_.trace().set_limit(options.trace_limit);
    shell_.reconfigure(settings_from(options, *memory_));
}

// -------------------------------------------------------------------------------------------------- the shell's ports

Result<shell::Connections::Sent> SharedDevice::send_pieces(shell::ConnectionId to, LaneId lane, std::size_t first,
                                                           std::size_t end) {
    const Result<std::vector<os::Descriptor>> pieces = memory_->pass_on(lane, first, end);
    if (!pieces) return Error{pieces.error()};
    std::vector<int> descriptors;
    for (const os::Descriptor& piece : pieces.value()) descriptors.push_back(piece.get());
    return server_.send(to, wire::LanePieces{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(first)},
                        descriptors);
}

void SharedDevice::wake(ControlPage& page) { os::wake_all(page.word); }

std::optional<shell::DeviceMemory::Usage> SharedDevice::usage(const std::vector<int>& clients) const {
    const auto usage = memory_->usage(clients);
    if (!usage) return std::nullopt;
    return Usage{usage->others, usage->clients};
}

std::vector<int> SharedDevice::strangers() const {
    std::vector<int> clients;
    for (const auto& [id, session] : shell_.sessions()) clients.push_back(session->process.pid);
    const auto usage = memory_->usage(clients);
    return usage ? usage->strangers : std::vector<int>{};
}

// ---------------------------------------------------------------------------------------------------------------- MPS

std::string SharedDevice::offer_mps(MpsPatience patience, std::size_t unserved) {
    const Policy& policy = engine().policy();
    const bool opens_lanes = !policy.info.exclusive && policy.opens_lane(/*share_in_use=*/0.5, /*newcomer_share=*/1);
    const auto wants = [&](MpsMode mode, bool all_users) {
        return wants_mps(mode, lanes_option_, opens_lanes ? 2 : 1, traits().has_contexts, all_users);
    };
    const bool offered = std::exchange(offers_mps_, wants(mps_mode_, all_users_)) && mps_;
    if (!offers_mps_ && all_users_ && wants(MpsMode::kAuto, false))
        return "MPS serves one user, so a service for all users does without: lanes take turns on the GPU";
    if (!offers_mps_ && wants(MpsMode::kAuto, false))
        return "the service was started with --mps off: lanes take turns on the GPU until it restarts without that option";
    if (!offers_mps_ || offered) return "";
    if (!mps_) {
        Result<std::unique_ptr<Mps>> started = Mps::start(mps_directory(), identity(), patience);
        if (!started) {
            const std::string why = fmt::format("no MPS: {}; lanes take turns on the GPU", started.error());
            log(LogLevel::kWarning, "{}", why);
            return why;
        }
        take_mps(std::move(started).value());
        log(LogLevel::kInfo, "MPS runs in {}", mps_->directory());
    }
    if (unserved == 0) return "";
    return fmt::format("MPS runs from now on; jobs started before ({}) take turns on the GPU until they are restarted",
                       unserved);
}

void SharedDevice::find_mps_of_earlier_service() {
    if (offers_mps_ || !traits().has_contexts) return;
    take_mps(Mps::find(mps_directory(), identity()));
    if (mps_) log(LogLevel::kInfo, "MPS of an earlier service still runs; new jobs do not use it");
}

void SharedDevice::take_mps(std::unique_ptr<Mps> mps) {
    mps_ = std::move(mps);
    if (mps_ && !server_.watch_mps(id_, mps_->pidfd()))
        log(LogLevel::kWarning, "epoll: {}; the service will not notice if MPS ends", std::strerror(errno));
}

void SharedDevice::mps_is_gone() {
    log(LogLevel::kError, "MPS is gone: {}; new jobs take turns on the GPU without it", mps_->why_gone());
    mps_.reset();
}

void SharedDevice::leave_mps() {
    if (mps_) mps_->leave();
}

}  // namespace salus::service
