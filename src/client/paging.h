// Whether the client's memory is out, and what was freed meanwhile.
//
// Not thread-safe, except for move_out() and move_in(), which wait for a disk: one thread at a time, without a lock that an
// allocation takes.
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
    /// A block was freed. If it goes out, or is out, it need not come back.
    void freed(const void* start) {
        if (state_ != State::kIn) freed_.push_back(static_cast<const std::byte*>(start));
    }
    /// Freed memory is worth keeping only while it is in.
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

    bool move_out(const std::vector<device::Part>& parts) { return pager_->page_out(parts); }
    bool move_in(const std::vector<const std::byte*>& freed) {
        for (const std::byte* start : freed) pager_->forget(start);
        return pager_->page_in();
    }
    /// What lies here is about to be unmapped.
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
