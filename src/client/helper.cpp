// The helper thread: answers the service while the job's own threads do something else, or nothing.

#include <cstdlib>

#include "base/text.h"
#include "client/client.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/poll.h"
#include "os/socket.h"

namespace salus::client {
namespace {

/// How long an orphaned client waits for a service before it goes on alone.
std::uint64_t orphan_wait_ns() {
    const char* text = std::getenv("SALUS_ORPHAN_WAIT");
    const auto seconds = parse_number(text ? text : "60");
    return static_cast<std::uint64_t>((seconds && *seconds >= 0 ? *seconds : 60.0) * 1e9);
}

std::vector<os::Descriptor> pieces_of(wire::Received& received) {
    std::vector<os::Descriptor> pieces;
    for (os::Descriptor& descriptor : received.descriptors) {
        if (descriptor) pieces.push_back(std::move(descriptor));
    }
    return pieces;
}

}  // namespace

void Client::help() {
    ::pthread_setname_np(::pthread_self(), "salus-helper");
    for (;;) {
        const int socket = socket_.get();
        const int watched[] = {socket, stop_seen_.get()};
        const std::uint32_t ready = socket >= 0 ? os::readable_of(watched, os::kForEver) : 0;
        if (stopping_ || descriptors_lost_) return;
        if (!keeps_descriptors()) return lose_descriptors_when_outside();
        if ((ready & 1) == 0) continue;
        try {
            if (handle(wire::receive(socket_.get())) && !failed_) continue;
            if (!end_attachment() || failed_ || sent_away_ || !reattach()) return;
        } catch (...) {
            if (failed_) return;
            fail("the helper cannot go on");
        }
    }
}

/// False when the connection is no more.
bool Client::handle(wire::Received received) {
    if (received.kind == wire::Received::Kind::kNothingNow) return true;
    if (received.kind != wire::Received::Kind::kMessage) return false;
    std::visit(
        [&]<typename T>(const T& message) {
            if constexpr (std::is_same_v<T, wire::LanePieces>) on(message, pieces_of(received));
            else if constexpr (std::is_same_v<T, wire::Sorry>)
                sent_away_ = warn("the service says: " + std::string(message.why.view()));
            else if constexpr (requires { this->on(message); }) on(message);
        },
        received.message);
    return !sent_away_;
}

void Client::on(const wire::LanePieces& message, std::vector<os::Descriptor> pieces) {
    if (message.first == 0) lane_ = message.lane;
    has_lane_ = (message.first == 0 || (has_lane_ && lane_ == message.lane)) &&
                memory_->add_lane_memory(message.first, std::move(pieces));
    if (!has_lane_) fail("a lane's memory cannot be had");
}

void Client::on(const wire::MapLane& message) {
    // After a restart of the service it may be paged out without the service's knowing.
    const bool ok = memory_->page_in() && has_lane_ && lane_ == message.lane && memory_->map_lane(message.size);
    if (ok) send(wire::Acknowledge{message.lane, message.version});
    else fail("a lane cannot be mapped");
    tell_askers();
}

void Client::on(const wire::UnmapLane& message) {
    if (has_lane_ && lane_ == message.lane) {
        memory_->unmap_lane();
        has_lane_ = false;
    }
    send(wire::Acknowledge{message.lane, message.version});
}

void Client::on(const wire::Revoke&) {
    if (turns_->word().state != control::State::kRevoked) return;
    drain();
    turns_->acknowledge();
}

void Client::on(const wire::Room& message) {
    memory_->set_room(message.persistent);
    {
        const std::lock_guard lock(ask_mutex_);
        answer_ = Answer::kGiven;
    }
    tell_askers();
}

void Client::on(const wire::Deny&) {
    {
        const std::lock_guard lock(ask_mutex_);
        answer_ = Answer::kDenied;
    }
    tell_askers();
}

void Client::on(const wire::PageOut&) {
    const control::Word word = turns_->word();
    const std::lock_guard lock(paging_mutex_);
    const bool parked = parked_ && word.state == control::State::kFree && word.want;
    if (!parked || stays_here_) return send(wire::Unpageable{stays_here_ ? 1u : 0u});
    if (memory_->page_out()) send(wire::PagedOut{});
    else send(wire::Unpageable{1});
}

void Client::on(const wire::PageIn&) {
    if (memory_->page_in()) send(wire::PagedIn{});
    else fail("memory that was paged out cannot be read back");
}

void Client::on(const wire::Refuse& message) {
    warn("this job needs " + format_bytes({static_cast<std::int64_t>(message.need)}) + " and the device has " +
         format_bytes({static_cast<std::int64_t>(message.capacity)}));
    refused_ = true;
}

void Client::tell_askers() {
    const std::lock_guard lock(ask_mutex_);
    answered_.notify_all();
}

/// See Note [Descriptors that are gone]: an iteration that has begun is finished first.
void Client::lose_descriptors_when_outside() {
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

bool Client::pause() {
    os::readable_within(stop_seen_.get(), milliseconds(20));
    return !stopping_;
}

/// There is no service any more, or we are to leave it: an iteration that has begun is finished, then the lane is left.
/// False if the client is being detached meanwhile.
bool Client::end_attachment() {
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
    has_lane_ = false;
    if (failed_) send(wire::Leave{});
    if (failed_ || sent_away_) go_alone();
    return true;
}

/// Waits for a service to attach to again. False: none came in time, and the client is on its own from now on.
bool Client::reattach() {
    const std::uint64_t deadline = os::now_ns() + orphan_wait_ns();
    while (pause()) {
        const Result<bool> connected = connect(/*again=*/true);
        if (connected) {
            if (const int socket = socket_.get(); failed_ && socket >= 0) os::end_receiving(socket);  // left again at once
            return true;
        }
        memory_->set_alone(true);
        lost_ = true;
        if (!failed_ && os::now_ns() < deadline) continue;
        if (!failed_) warn("the service is gone (" + connected.error() + "); this job runs on without sharing");
        go_alone();
        return false;
    }
    return false;
}

}  // namespace salus::client
