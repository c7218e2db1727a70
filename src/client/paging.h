// Whether the client's memory is paged out, and which blocks were freed meanwhile.
//
// Not thread-safe. move_out(), move_in() and forget() may run beside the other calls, but only one of them at a time; the
// first two wait for a disk, so the caller must hold no lock that an allocation takes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "device/device.h"

namespace salus::client {

class Paging {
public:
    explicit Paging(device::Pager* pager) : pager_(pager) {}

    bool can_page() const { return pager_ != nullptr; }
    bool is_out() const { return state_ == State::kOut; }
    /// Whether blocks may be allocated now.
    bool serves() const { return state_ == State::kIn || pager_->serves_meanwhile(); }
    /// It is paged out, or on its way, and must not be touched.
    bool is_away() const { return !serves(); }
    /// A block was freed. If it is paged out, or is on its way, it need not come back.
    void freed(const void* start) {
        if (state_ != State::kIn) freed_.push_back(static_cast<const std::byte*>(start));
    }
    /// Neither paged out nor on its way.
    bool is_in() const { return state_ == State::kIn; }

    void goes_out() { state_ = State::kGoesOut; }
    void went_out(bool out) {
        state_ = out ? State::kOut : State::kIn;
        if (!out) freed_.clear();
    }
    std::vector<const std::byte*> take_freed() { return std::exchange(freed_, {}); }
    void came_in() {
        state_ = State::kIn;
        freed_.clear();
    }

    bool move_out(const std::vector<device::Part>& parts, bool idle = false) {
        return idle ? pager_->page_out_idle(parts) : pager_->page_out(parts);
    }
    bool move_in(const std::vector<const std::byte*>& freed) {
        for (const std::byte* start : freed) pager_->forget(start);
        return pager_->page_in();
    }
    const device::Pager* pager() const { return pager_; }
    /// The block at `start` is about to be unmapped.
    void forget(const std::byte* start) {
        if (pager_) pager_->forget(start);
    }

private:
    enum class State : std::uint8_t { kIn, kGoesOut, kOut };

    device::Pager* pager_;
    State state_ = State::kIn;
    std::vector<const std::byte*> freed_;
};

}  // namespace salus::client
