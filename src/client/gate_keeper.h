// What a client does about gates: it puts them into its streams, marks its requests, and opens its gate where the service
// does not. Note [Gates] in wire/gate_page.h.
//
// Threads: launch(), request_begins() and request_ends() are for the job's threads; the rest is for the helper.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "attachment/request_marks.h"
#include "device/device.h"
#include "wire/gate_page.h"

namespace salus::client {

class GateKeeper {
public:
    /// `streams`: null if the device has no gates. Both must outlive this.
    GateKeeper(GatePage& page, device::GatedStreams* streams) : page_(page), marks_(page), streams_(streams) {}
    ~GateKeeper() { want_launches(false); }
    GateKeeper(const GateKeeper&) = delete;
    GateKeeper& operator=(const GateKeeper&) = delete;

    /// The service wants gates in the streams, or marks of requests, or neither.
    void arm(bool gates, bool requests);
    /// The service is gone: nobody closes the gate or looks at requests.
    void disarm();
    /// While armed, look() has to be called so often.
    bool is_armed() const { return puts_gates_.load(std::memory_order_relaxed); }
    static constexpr Duration kLookEvery = milliseconds(50);
    /// Opens the gate if it has been closed for kGateClosedMost: whoever closed it does not open it.
    void look(std::uint64_t now_ns);
    /// The process is about to end, or to leave the service for good: its gate is not closed any more.
    void stay_open() { page_.keep_open(); }
    /// Whether streams may still hold gates: then the page must not be unmapped.
    bool is_in_use() const { return prepared_; }

    /// A launch on this stream is about to come.
    void launch(device::Stream stream) {
        if (puts_gates_.load(std::memory_order_acquire)) [[unlikely]]
            put_gate_if_due(stream);
        if (marks_requests_.load(std::memory_order_acquire)) [[unlikely]]
            note_stream(stream);
    }
    /// The stream is about to be destroyed.
    void stream_ends(device::Stream stream);
    /// A context is gone, and its streams with it.
    void context_ended() { streams_ended_.fetch_add(1, std::memory_order_relaxed); }

    using Request = std::optional<attachment::RequestMarks::Mark>;
    /// The calling thread begins to answer. Signal the service then. Nothing: nobody wants to know.
    Request request_begins() { return marks_requests_.load(std::memory_order_acquire) ? mark() : std::nullopt; }
    /// The same thread has given the device all that is to be done for the request, on one stream or on several.
    void request_ends(const attachment::RequestMarks::Mark& mark);
    /// Any thread: the device has done it.
    void request_is_done(const attachment::RequestMarks::Mark& mark) { marks_.end(mark); }

private:
    void want_launches(bool yes);
    void put_gate_if_due(device::Stream stream);
    void note_stream(device::Stream stream);
    Request mark();

    GatePage& page_;
    attachment::RequestMarks marks_;
    device::GatedStreams* const streams_;
    std::atomic<bool> puts_gates_{false};
    std::atomic<bool> marks_requests_{false};
    std::atomic<bool> prepared_{false};
    std::atomic<bool> wants_launches_{false};
    std::atomic<std::uint64_t> streams_ended_{0};
    std::uint32_t closed_word_ = GatePage::kOpen;  ///< the gate's word, without keepers, when last seen ...
    std::uint64_t closed_since_ns_ = 0;            ///< ... and when it was first seen so
};

}  // namespace salus::client
