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
    // The gate's word. It is one, so that the gate is never closed while it is kept open, not even if the service is killed
    // in between.
    static constexpr std::uint32_t kOpen = 1;               ///< for the device
    static constexpr std::uint32_t kOneKeeper = 1u << 1;    ///< by the client: so many of its threads need the gate open now
    static constexpr std::uint32_t kOneClosing = 1u << 16;  ///< how often it was closed
    static constexpr std::uint32_t kKeepers = kOneClosing - kOneKeeper;
    static constexpr std::size_t kMarks = 64;

    alignas(64) std::atomic<std::uint32_t> gate{kOpen};
    alignas(64) std::array<RequestMark, kMarks> marks;  ///< by the client and the device

    static bool is_open(std::uint32_t word) { return (word & kOpen) != 0; }
    bool is_open() const { return is_open(gate.load(std::memory_order_acquire)); }
    /// For the service. Does nothing while the client needs the gate open, or if it changes the word all the time.
    void close() {
        std::uint32_t word = gate.load();
        for (int tries = 0; tries < 16 && (word & (kOpen | kKeepers)) == kOpen; ++tries) {
            if (gate.compare_exchange_strong(word, word + kOneClosing - kOpen)) return;
        }
    }
    void open() {
        if (!is_open()) gate.fetch_or(kOpen);
    }
    void keep_open() {
        gate.fetch_add(kOneKeeper);
        open();
    }
    void keep_open_no_more() { gate.fetch_sub(kOneKeeper); }
};

/// Keeps the client's own gate open: for one of its threads that waits for the device.
class KeepGateOpen {
public:
    explicit KeepGateOpen(GatePage* page) : page_(page) {
        if (page_) page_->keep_open();
    }
    ~KeepGateOpen() {
        if (page_) page_->keep_open_no_more();
    }
    KeepGateOpen(const KeepGateOpen&) = delete;
    KeepGateOpen& operator=(const KeepGateOpen&) = delete;

private:
    GatePage* page_;
};

}  // namespace salus
