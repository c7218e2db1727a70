// Watches what this process does between its calls, to find its class (attachment/behaviour.h). Costs nothing before the
// first forward pass that trains nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "attachment/behaviour.h"
#include "base/client_class.h"

namespace salus::client {

class ClassWatch {
public:
    /// Whether call_begins() has to be called.
    bool watches() const { return watches_.load(std::memory_order_relaxed); }
    /// A thread is about to begin a call. `nobody_inside`: no other thread is in one.
    void call_begins(bool nobody_inside);
    /// The program has fetched data.
    void fetched() { fetches_.fetch_add(1, std::memory_order_relaxed); }

    // A call has ended. The class, if it has changed.
    std::optional<ClientClass> trained();
    std::optional<ClientClass> answered();

    ClientClass found();

private:
    std::optional<ClientClass> news(const ClientClass& before) const;

    std::atomic<bool> watches_{false};
    std::atomic<bool> trained_{false};  ///< while it does not watch
    std::atomic<std::uint64_t> fetches_{0};

    std::mutex mutex_;
    attachment::Behaviour behaviour_;
    std::optional<attachment::Behaviour::Pause> pause_;  ///< before the calls in progress
    Instant ended_{};                                    ///< when the last call ended, and what had been used until then
    Duration cpu_;
    int thread_ = 0;  ///< that ended it, and how often it had slept
    std::uint64_t sleeps_ = 0;
    std::uint64_t fetches_seen_ = 0;
    std::uint64_t storage_seen_ = 0;  ///< bytes read from storage
};

}  // namespace salus::client
