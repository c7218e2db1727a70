// A client's gate and its requests: a page of its own, because the device reads and writes it, too. It follows the control
// page in the same memory file.
//
// Note [Gates]
// A gate is a wait that a batch client puts into its streams between launches: the stream goes on if the gate's word says
// open. So closing it stops the client on the device, in the middle of an iteration and however far its host has run ahead;
// opening it is one store. The service alone closes, while somebody waits for an answer (Note [When gates are closed],
// core/gates.h). The service opens again. So does the client itself: if the service is gone, if the gate has been closed for
// kGateClosedMost, and for as long as it waits for its own work on the device.
//
// A request is one call of an interactive client, from its begin to the end of its work on the device. It has a mark: the
// client stores a new number to `begun`, and has the device store that number to `done` behind the request's work.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace salus {

/// The client opens a gate that has been closed for so long. More than the service lets it be closed at a time.
inline constexpr Duration kGateClosedMost = milliseconds(150);

struct RequestMark {
    std::atomic<std::uint32_t> begun{0};
    std::atomic<std::uint32_t> done{0};

    bool in_flight() const { return begun.load(std::memory_order_acquire) != done.load(std::memory_order_acquire); }
};

struct GatePage {
    static constexpr std::uint32_t kOpen = 1;  ///< this bit of the gate's word; the others count how often it was closed
    static constexpr std::size_t kMarks = 64;

    alignas(64) std::atomic<std::uint32_t> gate{kOpen};
    alignas(64) std::atomic<std::uint32_t> keeps_open{0};  ///< by the client: so many threads need the gate open now
    alignas(64) std::array<RequestMark, kMarks> marks;     ///< by the client and the device

    static bool is_open(std::uint32_t word) { return (word & kOpen) != 0; }
    bool is_open() const { return is_open(gate.load(std::memory_order_acquire)); }
    /// For the service. Does nothing while the client needs the gate open.
    void close() {
        std::uint32_t word = gate.load(std::memory_order_relaxed);
        if (keeps_open.load() > 0) return;
        while (is_open(word) && !gate.compare_exchange_weak(word, word + 1)) {}
        if (keeps_open.load() > 0) open();  // since the look above
    }
    void open() {
        if (!is_open()) gate.fetch_or(kOpen);
    }
};

/// Keeps the client's own gate open: for one of its threads that waits for the device.
class KeepGateOpen {
public:
    explicit KeepGateOpen(GatePage* page) : page_(page) {
        if (!page_) return;
        page_->keeps_open.fetch_add(1);
        page_->open();
    }
    ~KeepGateOpen() {
        if (page_) page_->keeps_open.fetch_sub(1);
    }
    KeepGateOpen(const KeepGateOpen&) = delete;
    KeepGateOpen& operator=(const KeepGateOpen&) = delete;

private:
    GatePage* page_;
};

}  // namespace salus
