#include "service/shared_device.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "device/cuda/cuda_lane_memory.h"
#include "device/host/host_lane_memory.h"
#include "os/futex.h"
#include "service/log.h"
#include "service/startup.h"

namespace salus::service {
Result<std::vector<std::unique_ptr<device::LaneMemory>>> open_devices(const std::string& wanted) {
    std::vector<std::unique_ptr<device::LaneMemory>> devices;
    if (const auto count = host_devices_in(wanted)) {
        if (*count > 1) return device::make_host_lane_memories(*count);
        devices.push_back(device::make_host_lane_memory());
        return devices;
    }
    ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
    const Result<std::vector<device::cuda::Gpu>> gpus =
        device::cuda::open_gpus([](const std::string& why) { log(LogLevel::kWarning, "a GPU is left out: {}", why); });
    if (!gpus && wanted == "cuda") return Error{gpus.error()};
    if (!gpus) {
        log(LogLevel::kInfo, "{}: jobs share the host's memory", gpus.error());
        devices.push_back(device::make_host_lane_memory());
        return devices;
    }
    for (const device::cuda::Gpu& gpu : gpus.value()) {
        log(LogLevel::kInfo, "{}, {}", gpu.name, gpu.uuid);
        devices.push_back(device::make_cuda_lane_memory(gpu));
    }
    return devices;
}

SharedDevice::SharedDevice(DeviceId id, const Options& options, std::unique_ptr<device::LaneMemory> memory,
                           ServerLink& server, const std::string& name)
    : id_(id),
      server_(server),
      directory_(directory_of(options, id)),
      lanes_option_(options.lanes),
      mps_mode_(options.mps),
      all_users_(options.all_users),
      memory_(std::move(memory)),
      number_(memory_->index().value_or(static_cast<unsigned>(index_of(id)))),
      settings_(settings_from(options, *memory_)),
      journal_(directory_, memory_->identity(), options.trace_limit,
               format_header(settings_.engine, options.policy) + (name.empty() ? "" : " device=" + name)),
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

std::optional<double> SharedDevice::busy_share(Instant at) const {
    constexpr Duration kAskEvery = milliseconds(500);
    if (traits().is_host) return shell_.share_inside(at);
    if (!asked_busy_ || at - asked_busy_->at >= kAskEvery) asked_busy_ = {at, memory_->busy_share()};
    return asked_busy_->share ? asked_busy_->share : shell_.share_inside(at);
}

void SharedDevice::look_whether_there() {
    if (shell_.sessions().empty() && !is_closed()) memory_->usage({});
}

std::vector<int> SharedDevice::strangers() const {
    std::vector<int> clients;
    for (const auto& [id, session] : shell_.sessions()) clients.push_back(session->process.pid);
    const auto usage = memory_->usage(clients);
    return usage ? usage->strangers : std::vector<int>{};
}

// ---------------------------------------------------------------------------------------------------------------- MPS

std::string SharedDevice::offer_mps(MpsPatience patience, std::size_t unserved, std::optional<bool> helps) {
    const Policy& policy = engine().policy();
    const bool opens_lanes = !policy.info.exclusive && policy.opens_lane(/*share_in_use=*/0.5, /*newcomer_share=*/1);
    const auto wants = [&](MpsMode mode, bool all_users) {
        return wants_mps(mode, lanes_option_, opens_lanes ? 2 : 1, traits().has_contexts, all_users, helps);
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
        log(LogLevel::kInfo, "MPS runs in {}: from now on one job's fault on the GPU ends all jobs that use it",
            mps_->directory());
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
