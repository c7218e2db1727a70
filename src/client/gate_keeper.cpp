#include "client/gate_keeper.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "client/launches_wanted.h"

namespace salus::client {
namespace {

/// Of a request on more streams than this, the last ones are waited for.
constexpr unsigned kStreamsMost = 8;

struct Launched {
    device::Stream stream = 0;
    std::uint64_t ended = 0;  ///< how many streams of the process had ended then
};

/// Of the calling thread. A process has one client, so it is not kept per client.
struct ThreadsLaunches {
    device::Stream gated = 0;                       ///< the stream of its last launch while gates were put in ...
    unsigned launches = 0;                          ///< ... its launches on it since that was last told ...
    unsigned launches_left = 0;                     ///< ... and how many more may come
    std::array<Launched, kStreamsMost> launched{};  ///< for the request that it has begun, the last one last ...
    unsigned streams = 0;                           ///< ... on so many streams
};
constinit thread_local ThreadsLaunches launches_of_thread;

}  // namespace

void GateKeeper::arm(bool gates, bool requests) {
    if (!streams_) return;
    if ((gates || requests) && !prepared_) prepared_ = streams_->prepare();
    const bool puts = gates && prepared_, marks = requests && prepared_;
    // First, so that whoever sees the marks wanted is told of the launches that follow.
    if (puts || marks) want_launches(true);
    puts_gates_ = puts;
    marks_requests_ = marks;
    if (!puts && !marks) want_launches(false);
}

void GateKeeper::disarm() {
    puts_gates_ = marks_requests_ = false;
    want_launches(false);
    page_.open();
}

void GateKeeper::want_launches(bool yes) {
    if (wants_launches_.exchange(yes) == yes) return;
    if (yes) launches_wanted.fetch_add(kWantedForGates);
    else launches_wanted.fetch_sub(kWantedForGates);
}

void GateKeeper::look(std::uint64_t now_ns) {
    const std::uint32_t word = page_.gate.load(std::memory_order_acquire) & ~GatePage::kKeepers;
    if (std::exchange(closed_word_, word) != word) closed_since_ns_ = now_ns;
    if (!GatePage::is_open(word) && now_ns - closed_since_ns_ >= static_cast<std::uint64_t>(kGateClosedMost.ns))
        page_.open();
}

void GateKeeper::stream_ends(device::Stream stream) {
    if (!streams_ || !prepared_.load(std::memory_order_acquire)) return;
    streams_ended_.fetch_add(1, std::memory_order_relaxed);
    streams_->forget(stream);
}

/// Most launches go to the stream of the thread's last one, and need no lock.
void GateKeeper::put_gate_if_due(device::Stream stream) {
    if (std::exchange(launches_of_thread.gated, stream) != stream)
        launches_of_thread.launches = launches_of_thread.launches_left = 0;
    ++launches_of_thread.launches;
    if (launches_of_thread.launches < launches_of_thread.launches_left) return;
    launches_of_thread.launches_left = streams_->pass(stream, std::exchange(launches_of_thread.launches, 0));
}

/// Most launches go to the stream of the thread's last one.
void GateKeeper::note_stream(device::Stream stream) {
    auto& [gated, launches, left, launched, streams] = launches_of_thread;
    if (streams == 0 || launched[streams - 1].stream != stream) {
        const auto end = launched.begin() + streams;
        auto place = std::find_if(launched.begin(), end, [&](const Launched& other) { return other.stream == stream; });
        if (place == end && streams == kStreamsMost) place = launched.begin();
        if (place == end) ++streams;
        else std::rotate(place, place + 1, end);
    }
    launched[streams - 1] = {stream, streams_ended_.load(std::memory_order_relaxed)};
}

GateKeeper::Request GateKeeper::mark() {
    launches_of_thread.streams = 0;
    return marks_.begin();
}

/// A stream that may be gone is not touched: its program has waited for it, as a rule.
void GateKeeper::request_ends(const attachment::RequestMarks::Mark& mark) {
    const std::uint64_t ended = streams_ended_.load(std::memory_order_relaxed);
    std::array<device::Stream, kStreamsMost> lasting;
    std::size_t count = 0;
    for (unsigned i = 0; i < launches_of_thread.streams; ++i) {
        if (launches_of_thread.launched[i].ended == ended) lasting[count++] = launches_of_thread.launched[i].stream;
    }
    if (count > 0 && streams_->store_behind(std::span(lasting).first(count), marks_.done_word(mark), mark.number))
        marks_.give_back(mark);
    else marks_.end(mark);
}

}  // namespace salus::client
