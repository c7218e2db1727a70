// The helper thread: answers the service, whatever the job's own threads do.

#include <cstdio>
#include <utility>

#include "base/text.h"
#include "client/process_client.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/futex.h"
#include "os/patience.h"
#include "os/poll.h"
#include "os/socket.h"

namespace salus::client {
namespace {

std::vector<os::Descriptor> pieces_of(wire::Received& received) {
    std::vector<os::Descriptor> pieces;
    for (os::Descriptor& descriptor : received.descriptors) {
        if (descriptor) pieces.push_back(std::move(descriptor));
    }
    return pieces;
}

}  // namespace

void ProcessClient::help() {
    ::pthread_setname_np(::pthread_self(), "salus-helper");
    for (;;) {
        const int socket = socket_.get();
        const int watched[] = {socket, stop_seen_.get()};
        const Duration patience = gates_->is_armed() ? GateKeeper::kLookEvery : os::kForEver;
        const std::uint32_t ready = socket >= 0 ? os::readable_of(watched, patience) : 0;
        gates_->look(os::now_ns());
        if (stopping_ || descriptors_lost_) return;
        if (!keeps_descriptors()) return lose_descriptors_when_outside();
        if ((ready & 1) == 0) continue;
        try {
            if (handle(wire::receive(socket_.get())) && !failed_) continue;
            if (!end_attachment() || failed_ || sent_away_ || !reattach()) return;
        } catch (...) {
            if (failed_) return;
            fail("the helper thread cannot continue");
        }
    }
}

/// False when the connection has ended.
bool ProcessClient::handle(wire::Received received) {
    if (received.kind == wire::Received::Kind::kNothingNow) return true;
    if (received.kind != wire::Received::Kind::kMessage) return false;
    if (const auto* sorry = std::get_if<wire::Sorry>(&received.message)) {
        sent_away_ = warn("the service says: " + std::string(sorry->why.view()));
    } else if (const auto* answer = std::get_if<wire::NeedAnswer>(&received.message)) {
        on(*answer);
    } else if (const auto* refuse = std::get_if<wire::Refuse>(&received.message)) {
        on(*refuse);
    } else if (std::holds_alternative<wire::Hurry>(received.message)) {
        constexpr std::uint64_t kSignalIsHandledNs = 5'000'000'000;
        hurries_until_ns_ = os::now_ns() + kSignalIsHandledNs;
        os::wake_all(page_->word);
    } else if (const auto* arm = std::get_if<wire::Arm>(&received.message)) {
        gates_->arm(arm->gates != 0, arm->requests != 0);
    } else {
        serve(received.message, pieces_of(received));
    }
    return !sent_away_;
}

void ProcessClient::serve(const wire::Message& message, std::vector<os::Descriptor> pieces) {
    // No thread comes out of begin() while this lock is held.
    std::unique_lock lock(paging_mutex_, std::defer_lock);
    const bool pages_out = std::holds_alternative<wire::PageOut>(message);
    const control::Word word = turns_->word();
    if (pages_out) lock.lock();
    const attachment::Requests::State state{.word = word,
                                            .parked = pages_out && parked_,
                                            .stays = stays_here_,
                                            .because = stays_because_,
                                            .may_go_idle = pages_out && memory_->may_go_idle()};
    const attachment::Requests::Step step = requests_.on(message, state);
    if (step.say) send(*step.say);
    if (std::holds_alternative<std::monostate>(step.todo)) return;
    const attachment::Outcome outcome = perform(step.todo, std::move(pieces));
    if (failed_) return;
    if (const auto answer = attachment::Requests::answer(step.todo, outcome)) send(*answer);
    tell_askers();  // a lane may have grown
}

attachment::Outcome ProcessClient::perform(const attachment::Request& request, std::vector<os::Descriptor> pieces) {
    namespace request_of = attachment::request;
    if (const auto* take = std::get_if<request_of::TakePieces>(&request)) {
        if (!memory_->add_lane_memory(take->first, std::move(pieces))) fail("the memory of a lane cannot be opened");
    } else if (const auto* map = std::get_if<request_of::MapLane>(&request)) {
        // After a restart of the service, the memory may be paged out without the service knowing.
        if (!page_in() || !memory_->map_lane(map->size)) fail("a lane cannot be mapped");
    } else if (std::holds_alternative<request_of::UnmapLane>(request)) {
        memory_->unmap_lane();
    } else if (std::holds_alternative<request_of::Drain>(request)) {
        const bool device_works = !device_->fences->at_rest();
        drain();
        turns_->acknowledge(device_works);
    } else if (const auto* out = std::get_if<request_of::PageOut>(&request)) {
        Memory::PageMove move;
        const bool ok = memory_->page_out(&move, out->idle);
        return {ok, move.left, move.bytes, move.ns, !move.may_work_later, move.because};
    } else if (std::holds_alternative<request_of::PageIn>(request)) {
        Memory::PageMove move;
        if (!page_in(&move)) fail("memory that was paged out cannot be read back");
        return {true, move.left, move.bytes, move.ns};
    } else {
        fail("the service names a lane but has not sent its memory");
    }
    return {};
}

void ProcessClient::on(const wire::NeedAnswer& message) {
    {
        const std::lock_guard lock(ask_mutex_);
        if (!asking_.on(message)) return;
        if (message.given != 0) memory_->set_room(message.persistent);
    }
    if (message.given == 0) explain(message);  // before the framework's own error
    tell_askers();
}

/// Once: a script may try smaller batches until one fits.
void ProcessClient::explain(const wire::NeedAnswer& denial) {
    if (denial.more == 0 || exiting_ || std::exchange(explained_denial_, true)) return;
    const auto text = [](std::uint64_t bytes) { return format_bytes({static_cast<std::int64_t>(bytes)}); };
    std::string line = text(denial.more);
    if (denial.holder_holds == 0) {
        line += " more do not fit: jobs have " + text(denial.capacity) +
                ", and no other job holds any of it; make this job smaller";
    } else {
        const std::string job = std::to_string(denial.holder_job);
        const std::string name(denial.holder.view());
        line += " more do not fit: job " + job + (name.empty() ? "" : " (" + name + ")") + " holds " +
                text(denial.holder_holds) + " of " + text(denial.capacity);
        if (denial.others_hold > denial.holder_holds)
            line += ", and others hold " + text(denial.others_hold - denial.holder_holds);
        line += "; wait for it (salus wait " + job + "), or make this job smaller";
    }
    std::fprintf(stderr, "salus: %s\n", line.c_str());
}

void ProcessClient::on(const wire::Refuse& message) {
    warn("this job needs " + format_bytes({static_cast<std::int64_t>(message.need)}) + " and the device has " +
         format_bytes({static_cast<std::int64_t>(message.capacity)}));
    refused_ = true;
}

void ProcessClient::tell_askers() {
    const std::lock_guard lock(ask_mutex_);
    answered_.notify_all();
}

/// See Note [Descriptors that are gone]. An iteration in progress is finished first.
void ProcessClient::lose_descriptors_when_outside() {
    gates_->stay_open();
    lost_ = true;
    memory_->set_alone(true);
    tell_askers();
    while (!turns_->withdraw()) {
        if (descriptors_lost_) return;
        if (turns_->word().state == control::State::kRevoked) {
            drain();
            turns_->acknowledge();
        }
        os::sleep_for(milliseconds(20));
    }
    lose_descriptors();
}

bool ProcessClient::pause() {
    os::readable_within(stop_seen_.get(), milliseconds(20));
    return !stopping_;
}

/// The service is gone, or we have to leave it. An iteration in progress is finished first, then the client leaves its lane.
/// False if the client is detached meanwhile.
bool ProcessClient::end_attachment() {
    gates_->disarm();
    lost_ = true;
    memory_->set_alone(true);  // nobody to ask
    tell_askers();
    while (!turns_->withdraw()) {
        if (turns_->word().state == control::State::kRevoked) {
            drain();
            turns_->acknowledge();
        }
        if (!pause()) return false;
    }
    memory_->unmap_lane();
    requests_.forget_lane();
    if (failed_) send(wire::Leave{});
    if (failed_ || sent_away_) go_alone();
    return true;
}

/// Waits for a new service and attaches to it. False: none came in time, and the client is on its own from now on; or it is
/// being detached.
bool ProcessClient::reattach() {
    const Instant deadline = os::now() + os::orphan_wait();
    while (pause()) {
        const Result<bool> connected = connect(/*again=*/true);
        if (connected) {
            if (const int socket = socket_.get(); failed_ && socket >= 0) os::end_receiving(socket);  // leave at once
            return true;
        }
        memory_->set_alone(true);
        lost_ = true;
        if (!failed_ && !is_final_ && os::now() < deadline) continue;
        if (!failed_ && is_final_) warn(connected.error() + "; this job continues without sharing");
        else if (!failed_) warn("the service is gone (" + connected.error() + "); this job continues without sharing");
        go_alone();
        return false;
    }
    return false;
}

}  // namespace salus::client
