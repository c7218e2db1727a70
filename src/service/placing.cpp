// Which device each job goes to: what the service knows about its devices and jobs, put to core/placement. And what happens
// when a device is lost.
//
// Note [Placed once]
// A job is placed when its `salus run` announces it, and anew as long as its process has not started: once that has seen a
// GPU, nothing can take it to another. Its CUDA_VISIBLE_DEVICES is set just before its process starts. A process that nobody
// has placed uses the GPU that it sees first, or whose context it has.
#include <algorithm>
#include <utility>

#include <unistd.h>

#include "os/clock.h"
#include "service/log.h"
#include "service/server.h"

namespace salus::service {
namespace {

Bytes bytes_from(std::uint64_t count) { return shell::in_range(count) ? Bytes{static_cast<std::int64_t>(count)} : Bytes{}; }

}  // namespace

// --------------------------------------------------------------------------------------------------- what has been said

std::vector<DeviceNames> Server::names_of_devices() const {
    std::vector<DeviceNames> names;
    for (const auto& device : devices_) names.push_back({device->number(), device->identity()});
    return names;
}

/// "0 (GPU-…), 1 (GPU-…)"
std::string Server::all_names() const {
    std::string all;
    for (const auto& device : devices_)
        all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", device->number(), device->label());
    return all;
}

/// Whether it can be met at all.
std::optional<Server::WhyNot> Server::read_wishes(const wire::Wishes& said, Wishes& wishes) const {
    if (said.client_class != wire::Wishes::kNotSaid) wishes.interactive = said.client_class == wire::Wishes::kInteractive;
    wishes.persistent = bytes_from(said.persistent);
    wishes.ephemeral = bytes_from(said.ephemeral);
    const std::vector<DeviceNames> names = names_of_devices();
    const std::string_view list = said.devices.view();
    if (said.by == wire::Wishes::kNobody) return std::nullopt;
    // Several devices of the host stand for GPUs, so that what an engine assigns can be tried.
    const bool on_host = devices_.front()->traits().is_host;
    if (said.by == wire::Wishes::kEnvironment && on_host && devices_.size() < 2) return std::nullopt;
    for (const std::size_t found : devices_in(list, names)) wishes.devices.push_back(devices_[found]->id());
    if (said.by == wire::Wishes::kEarlier) {
        wishes.was_there = !wishes.devices.empty();
        return std::nullopt;
    }
    if (said.by == wire::Wishes::kUser) {
        const std::string unknown = first_unknown_in(list, names);
        if (unknown.empty() && !wishes.devices.empty()) return std::nullopt;
        return WhyNot{
            fmt::format("--gpu: there is no GPU '{}'; the service shares {}", unknown.empty() ? list : unknown, all_names()),
            Mistake::kUsers};
    }
    // What the service does not share may come before what it does.
    for (std::size_t at = list.find(','); wishes.devices.empty() && at != std::string_view::npos;
         at = list.find(',', at + 1)) {
        for (const std::size_t found : devices_in(list.substr(at + 1), names))
            wishes.devices.push_back(devices_[found]->id());
    }
    wishes.is_assigned = !wishes.devices.empty();
    wishes.has_several = wishes.is_assigned && list.find(',') != std::string_view::npos;
    // On the host, a list that names none of its devices is about GPUs, and these are not ours.
    if (wishes.is_assigned || on_host) return std::nullopt;
    return WhyNot{fmt::format("CUDA_VISIBLE_DEVICES is '{}', which names no GPU that the service shares", list),
                  Mistake::kFinal};
}

// ------------------------------------------------------------------------------------------------------------- choosing

/// As far as anything is known before it attaches.
bool Server::counts_as_interactive(const Job& job) const {
    if (job.said.interactive) return *job.said.interactive;
    return job.wishes.interactive.value_or(job.past.interactive);
}

bool Server::waits_to_start(const Job& job) const {
    return job.device && devices_[index_of(*job.device)]->engine().starts().waits(JobId{job.id});
}

/// One pass over jobs and clients: the cost must not grow with devices times jobs.
Server::Occupation Server::occupation() const {
    const Instant at = os::now();
    Occupation now;
    for (const auto& device : devices_) {
        const Engine& engine = device->engine();
        DeviceFacts& of_device = now.devices.emplace_back();
        of_device.id = device->id();
        of_device.capacity = engine.capacity();
        of_device.taken = engine.taken(at);
        of_device.is_closed = device->is_closed();
        for (const auto& [id, session] : device->shell().sessions()) {
            if (session->client_class.interactive) now.interactive.insert(session->job);
        }
    }
    for (const auto& [id, job] : jobs_) count_job(now, job, 1);
    return now;
}

void Server::count_job(Occupation& now, const Job& job, int by) const {
    if (!job.device) return;
    DeviceFacts& of_device = now.devices[index_of(*job.device)];
    const bool answers = now.interactive.contains(job.id) || counts_as_interactive(job);
    (answers ? of_device.interactive : of_device.batch) += static_cast<std::size_t>(by);
    if (waits_to_start(job)) of_device.waiting += static_cast<std::size_t>(by);
}

/// Without itself.
std::vector<DeviceFacts> Server::facts_for(const Job& newcomer, Occupation now) const {
    count_job(now, newcomer, -1);
    for (DeviceFacts& of_device : now.devices) {
        for (const Lane& lane : devices_[index_of(of_device.id)]->engine().lanes().all()) {
            if (lane.user == UserId{newcomer.uid}) of_device.largest_lane = std::max(of_device.largest_lane, lane.size);
        }
    }
    return now.devices;
}

std::optional<DeviceChoice> Server::choose_for(const Job& job, const Occupation& now) const {
    NewcomerFacts newcomer;
    const auto known = [](Bytes said, Bytes past) { return said > Bytes{} ? said : past; };
    newcomer.persistent = known(job.wishes.persistent, job.past.persistent);
    newcomer.ephemeral = known(job.wishes.ephemeral, job.past.ephemeral);
    newcomer.context = devices_.front()->engine().options().context;
    if (newcomer.context > Bytes{} && newcomer.persistent == Bytes{}) newcomer.persistent = Starts::kWeightsGuess;
    newcomer.interactive = counts_as_interactive(job);
    // The GPU that an assigned list begins with is the one that its processes see first.
    std::span<const DeviceId> allowed = job.wishes.devices;
    if (job.wishes.is_assigned || job.wishes.was_there) allowed = allowed.first(1);
    newcomer.allowed = allowed;
    std::optional<DeviceChoice> choice = choose_device(facts_for(job, now), newcomer, options_.placement);
    if (!choice || allowed.size() != 1) return choice;
    choice->reason = job.wishes.was_there     ? PlacementReason::kStayed
                     : job.wishes.is_assigned ? PlacementReason::kAssigned
                                              : PlacementReason::kSaid;
    return choice;
}

void Server::put_on(Job& job, const DeviceChoice& choice) {
    job.device = choice.device;
    job.placement = choice.reason;
    if (devices_.size() < 2) return;
    log(LogLevel::kInfo, "job {} ({}) is placed on {} ({}): {}", job.id, job.name, at(choice.device).number(),
        at(choice.device).label(), text_of(choice.reason));
}

/// The job's device; chooses one if it has none. Null: there is none for it.
SharedDevice* Server::device_for(Job& job) {
    if (!job.device) {
        const auto choice = choose_for(job, occupation());
        if (!choice) return nullptr;
        put_on(job, *choice);
    }
    return at(*job.device).is_closed() ? nullptr : &at(*job.device);
}

/// The one that a process sees first: CUDA shows it none that was lost before.
SharedDevice& Server::first_open() const {
    const auto open = std::ranges::find_if(devices_, [](const auto& device) { return !device->is_closed(); });
    return open == devices_.end() ? *devices_.front() : **open;
}

/// The device that a client attaches to: where its process is, whatever was decided for its job.
SharedDevice* Server::device_for(Job& job, const Session& session, const wire::Attach& attach) {
    std::optional<DeviceChoice> where;
    const std::vector<std::size_t> named = devices_named_by(attach);
    if (named.empty() && names_unshared(attach)) return nullptr;
    const bool came_before = session.page->iterations > 0;
    const auto orphan_of =
        std::ranges::find_if(devices_, [&](const auto& device) { return device->shell().is_orphan(session.process); });
    if (!named.empty())
        where = {devices_[named.front()]->id(), came_before ? PlacementReason::kStayed : PlacementReason::kFirst};
    else if (orphan_of != devices_.end()) where = {(*orphan_of)->id(), PlacementReason::kStayed};
    else if (!job.device && devices_.size() > 1 && !devices_.front()->traits().is_host)
        where = {first_open().id(), PlacementReason::kFirst};
    if (!where) return device_for(job);
    if (devices_.size() < 2) where->reason = PlacementReason::kOnly;
    if (!job.device) put_on(job, *where);
    if (at(where->device).is_closed()) return nullptr;
    if (*job.device != where->device && (named.empty() || clients_of(job.id).empty())) correct(job, *where);
    return &at(where->device);
}

/// On the host a list of GPUs means nothing. A client that comes back says what its device is called.
std::vector<std::size_t> Server::devices_named_by(const wire::Attach& attach) const {
    const std::string_view gpu = attach.gpu.view();
    if (devices_.front()->traits().is_host && !gpu.starts_with("host-")) return {};
    const std::vector<DeviceNames> names = names_of_devices();
    const std::vector<std::size_t> named = devices_in(gpu, names);
    if (!named.empty() || !gpu.starts_with("GPU-")) return named;
    return devices_in("MIG-" + std::string(gpu.substr(4)), names);  // as CUDA tells the UUID of an instance
}

/// A GPU that this service does not have, so the client can share nothing here. REQUIRES: devices_named_by() finds none.
bool Server::names_unshared(const wire::Attach& attach) const {
    const std::string_view gpu = attach.gpu.view();
    return !devices_.front()->traits().is_host && (gpu.starts_with("GPU-") || gpu.starts_with("MIG-"));
}

/// Its process is not where the job was placed.
void Server::correct(Job& job, const DeviceChoice& where) {
    at(*job.device).shell().withdraw(JobId{job.id});
    job.joins_mps = false;
    put_on(job, where);
    if (job.announced) announce_to(at(where.device), job, /*runs=*/true, /*waited=*/false);
}

std::string Server::why_nowhere(const Job& job, const wire::Attach& attach) const {
    if (devices_named_by(attach).empty() && names_unshared(attach))
        return fmt::format("the process uses the GPU {}; the service shares {}", attach.gpu.view(), all_names());
    for (const auto& device : devices_) {
        const bool is_its = job.device ? *job.device == device->id()
                                       : job.wishes.devices.empty() ||
                                             std::ranges::find(job.wishes.devices, device->id()) != job.wishes.devices.end();
        if (is_its && device->is_closed()) return device->why_closed();
    }
    return "there is no device for the job";
}

// ------------------------------------------------------------------------------------------------------------- starting

/// False: it has to wait until its runner is told Start.
bool Server::announce_to(SharedDevice& device, const Job& job, bool runs, bool waited) {
    tell_limits(device, job.uid);
    if (job.said.suspended) device.shell().hold(JobId{job.id}, true);  // first: it may start at once else
    return device.shell().announce({JobId{job.id}, job.runner_connection, job.past.persistent, runs, waited, job.uid});
}

void Server::decide_mps(Job& job) {
    SharedDevice& device = at(*job.device);
    const bool offered = !device.mps_for_new_jobs().empty();
    job.joins_mps = job.joins_mps || (offered && may_join_mps(::getuid(), job.uid, jobs_.on_mps_of(device.id())));
    if (offered && !job.joins_mps) {
        log(LogLevel::kWarning, "job {} ({}) runs without MPS, which takes at most {} jobs, and of user {} only", job.id,
            job.name, Mps::kClientsMax, ::getuid());
    }
}

/// For its runner.
void Server::name_device(const Job& job, wire::Text<64>& gpu, wire::Text<128>& mps) {
    if (!job.device) return;
    SharedDevice& device = at(*job.device);
    gpu = wire::Text<64>(device.identity());
    if (job.joins_mps) mps = wire::Text<128>(device.mps());
}

/// A job whose process has not started goes where there is room by now, unless others wait there already.
void Server::place_waiting_anew() {
    place_anew_at_ = kNever;
    if (devices_.size() < 2) return;
    const auto waits = [](const auto& device) { return device->engine().starts().anybody_waits(); };
    if (std::ranges::none_of(devices_, waits)) return;
    place_anew_at_ = os::now() + kPlaceAnewEvery;
    const auto has_no_queue = [&](const auto& device) { return !device->is_closed() && !waits(device); };
    std::optional<Occupation> now;
    for (auto& [id, job] : jobs_) {
        if (!waits_to_start(job) || job.runner_pid == 0) continue;
        if (std::ranges::none_of(devices_, has_no_queue)) return;
        const std::vector<DeviceId>& allowed = job.wishes.devices;
        if (job.wishes.is_assigned || allowed.size() == 1) continue;
        if (!now) now = occupation();
        const auto choice = choose_for(job, *now);
        const bool has_room = choice && choice->reason != PlacementReason::kQueue && choice->device != *job.device;
        if (!has_room || waits(devices_[index_of(choice->device)])) continue;
        move_waiting(job, *choice);
        now.reset();
    }
}

/// REQUIRES: it waits to start.
void Server::move_waiting(Job& job, const DeviceChoice& choice) {
    job.waited_elsewhere += at(*job.device).engine().waited_to_start(JobId{job.id}, os::now());
    at(*job.device).shell().withdraw(JobId{job.id});
    job.joins_mps = false;
    put_on(job, choice);
    decide_mps(job);
    if (announce_to(at(choice.device), job, /*runs=*/false, /*waited=*/false))
        send(job.runner_connection, wire::Start{}, {});
}

// ----------------------------------------------------------------------------------------------------------------- loss

/// Before a job or client is taken up: jobs that end with a device are dropped here.
void Server::look_whether_devices_are_there() {
    for (const auto& device : devices_) device->look_whether_there();
    look_for_lost_devices();
}

void Server::look_for_lost_devices() {
    for (const auto& device : devices_) {
        if (device->is_lost() && !device->is_closed()) close_device(*device);
    }
}

/// What its jobs still do there fails. So they are told, and need not wait for a turn that may never come.
void Server::close_device(SharedDevice& device) {
    const std::string why =
        fmt::format("the GPU {} ({}) is lost: it has failed or was taken away", device.number(), device.label());
    device.close(why);
    log(LogLevel::kError, "{}; no job goes there any more, the others are not affected", why);
    std::vector<ConnectionId> told;
    for (const auto& [id, session] : device.shell().sessions()) {
        if (!session->disconnected) told.push_back(session->connection);
    }
    for (auto& [id, job] : jobs_) {
        if (job.device != device.id()) continue;
        const bool waits = waits_to_start(job);
        const auto elsewhere = waits ? choose_for(job, occupation()) : std::nullopt;
        if (elsewhere) move_waiting(job, *elsewhere);
        else job.why_unshared = why;
        if (waits && !elsewhere) told.push_back(job.runner_connection);
    }
    for (const ConnectionId id : told) {
        const auto connection = connections_.find(id);
        if (connection == connections_.end()) continue;
        refuse(connection->second, why, Mistake::kFinal);
        close(id);
    }
    keep_again_ = true;
}

}  // namespace salus::service
