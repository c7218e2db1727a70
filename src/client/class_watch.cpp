#include "client/class_watch.h"

#include "os/clock.h"
#include "os/process.h"
#include "os/thread.h"

namespace salus::client {
namespace {

/// Less than this is the program's own pages, not its data.
constexpr std::uint64_t kFetchLeast = std::uint64_t{64} << 10;

}  // namespace

std::optional<ClientClass> ClassWatch::news(const ClientClass& before) const {
    return behaviour_.found() == before ? std::nullopt : std::optional(behaviour_.found());
}

std::optional<ClientClass> ClassWatch::trained() {
    if (!watches_.load(std::memory_order_relaxed)) {
        if (trained_.load(std::memory_order_relaxed)) return std::nullopt;
        trained_.store(true, std::memory_order_relaxed);
        return ClientClass{false, ClassReason::kTrains};  // its service may think otherwise, because of earlier runs
    }
    const std::lock_guard lock(mutex_);
    const ClientClass before = behaviour_.found();
    behaviour_.trained(os::now());
    return news(before);
}

std::optional<ClientClass> ClassWatch::answered() {
    const std::lock_guard lock(mutex_);
    const ClientClass before = behaviour_.found();
    const Instant now = os::now();
    if (!watches_.exchange(true, std::memory_order_relaxed)) storage_seen_ = os::bytes_read_from_storage();
    if (trained_.exchange(false, std::memory_order_relaxed)) behaviour_.trained(now);
    behaviour_.answered(pause_.value_or(attachment::Behaviour::Pause{}), now);
    pause_.reset();
    ended_ = now;
    cpu_ = os::cpu_time();
    thread_ = os::this_thread();
    sleeps_ = os::sleeps_of_this_thread();
    fetches_seen_ = fetches_.load(std::memory_order_relaxed);
    return news(before);
}

void ClassWatch::call_begins(bool nobody_inside) {
    const std::lock_guard lock(mutex_);
    if (!nobody_inside || pause_) return;
    pause_ = attachment::Behaviour::Pause{.length = os::now() - ended_, .cpu = os::cpu_time() - cpu_};
    if (pause_->length < attachment::Behaviour::kPauseLeast) return;
    pause_->slept = thread_ != os::this_thread() || sleeps_ != os::sleeps_of_this_thread();
    const std::uint64_t storage = os::bytes_read_from_storage();
    pause_->fetched = fetches_.load(std::memory_order_relaxed) != fetches_seen_ || storage >= storage_seen_ + kFetchLeast;
    storage_seen_ = storage;
}

ClientClass ClassWatch::found() {
    const std::lock_guard lock(mutex_);
    return behaviour_.found();
}

}  // namespace salus::client
