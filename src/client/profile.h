// What a client has learned of its P and T, and which blocks will be dead at the boundary.
//
// Not thread-safe, except for iteration_begins().
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "client/block.h"
#include "client/predictor.h"

namespace salus::client {

/// Bytes that a client needs.
struct Needs {
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
};

class Profile {
public:
    /// An iteration of this kind begins. Iterations of one kind allocate alike.
    void iteration_begins(std::uint64_t kind) { kind_.store(kind, std::memory_order_relaxed); }
    /// The number of boundaries so far.
    std::uint64_t iteration() const { return iteration_; }

    /// A block is wanted inside an iteration. Guesses whether it will be dead at the boundary.
    struct Guess {
        Birth birth;
        bool dies;
    };
    Guess wanted(std::uint64_t size, device::Stream stream);
    /// ... but there was no memory: a block that never existed must not count as a survivor.
    void not_had(const Birth& birth);
    /// `private_bytes`: in use at this moment.
    void allocated(const Birth& birth, std::uint64_t size, std::uint64_t private_bytes);
    /// `inside`: by a thread inside an iteration, or one that works for it; see Note [Other threads].
    void freed(const Block& block, bool inside, std::uint64_t private_bytes);
    /// Private bytes that were allocated and freed inside this iteration.
    std::uint64_t missed() const { return missed_; }

    /// What the ending iteration used, as counted by the heaps.
    struct Seen {
        std::uint64_t private_bytes = 0;
        std::uint64_t private_peak = 0;
        std::uint64_t lane_peak = 0;
        bool threaded = false;  ///< then everything was private
    };
    /// The iteration brought nothing to learn.
    bool uneventful(std::uint64_t private_peak) const;
    /// What the next iterations will need. REQUIRES: followed by next_iteration().
    Needs learn(const Seen& seen);
    void next_iteration() { ++iteration_; }
    /// The largest P of the last iterations.
    std::uint64_t persistent() const { return persistent_.get(); }

    /// While the client is alone, nothing is recorded. When this ends, the next replay starts from here.
    void set_alone(bool alone, std::uint64_t private_bytes);
    /// For tests: every n-th iteration, all blocks are expected to die. 0: never.
    void mispredict_every(std::uint64_t iterations) { mispredict_every_ = iterations; }

private:
    /// What happened since the last boundary, for the replay.
    struct Step {
        bool allocated;
        bool has_ticket;
        Predictor::Ticket ticket;
        std::uint64_t size;
    };
    /// The largest value of the last iterations; forgets slowly.
    class RecentMax {
    public:
        void add(std::uint64_t value);
        std::uint64_t get() const { return now_ > before_ ? now_ : before_; }

    private:
        static constexpr unsigned kWindow = 16;
        std::uint64_t now_ = 0;
        std::uint64_t before_ = 0;
        unsigned count_ = 0;
    };

    bool mispredicts() const { return mispredict_every_ > 0 && iteration_ % mispredict_every_ == 0; }
    void note(const Step& step, std::uint64_t private_bytes);
    Needs replay(const Seen& seen) const;

    Predictor predictor_;
    std::vector<Step> steps_;
    std::uint64_t iteration_ = 0;
    std::atomic<std::uint64_t> kind_{0};
    std::uint64_t at_boundary_ = 0;  ///< private bytes in use at the last boundary
    std::uint64_t missed_ = 0;
    RecentMax persistent_;
    RecentMax ephemeral_;
    std::uint64_t mispredict_every_ = 0;
    bool alone_ = true;
};

}  // namespace salus::client
