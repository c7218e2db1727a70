// A device that works for one client at a time, as a GPU without MPS does.
//
// Note [Time slices]
// A client's thread launches the work of an iteration evenly over its host time, whatever the device does meanwhile. The
// device works for one client: those that have work take turns, in slices. A client that has no launched work left loses the
// rest of its slice. Each change costs switch time, in which nobody's work is done. While only one client has work, its
// slices follow each other without a change, so whoever comes waits for the rest of the present one.
//
// An iteration has ended when all of it was launched and the device has done it. So alone it takes its host time or its
// device time, whichever is longer. A request that is bound by its host runs on beside a busy client: what it launches
// during the other's slice is done at the beginning of its own. It is late by what it waits at its end.
//
// Launches are a fluid here: kernels are short against a slice.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace salus::sim {

class SlicedDevice {
public:
    /// What is left of an iteration.
    struct Work {
        double host_ns = 0;          ///< until all is launched
        double not_launched_ns = 0;  ///< device time
        double launched_ns = 0;
        bool is_done() const { return host_ns <= 0 && launched_ns <= 0; }
    };

    /// REQUIRES: both are more than 0. Without a cost, clients that launch little would change all the time.
    SlicedDevice(Duration slice, Duration switch_cost);

    /// From the time on up to which advance() was called.
    void put(ClientId id, const Work& work);
    /// REQUIRES: the client was put here, and has not been taken; also below.
    Work take(ClientId id);
    /// The client's launched work stands still: it is at a closed gate.
    void hold(ClientId id, bool held);
    bool is_done(ClientId id) const;

    void advance(Instant now);
    /// When advance() must be called, unless something else happens before: somebody may be done.
    Instant next_change() const;

private:
    struct Entry {
        ClientId id;
        Work work;
        bool held = false;
        bool wants() const { return !held && (work.launched_ns > 0 || work.not_launched_ns > 0); }
        bool has_work() const { return !held && work.launched_ns > 0; }
    };
    /// Whom the device works for. Between iterations this client is not here, but the device has not left it.
    struct Slices {
        ClientId client = kNoClient;
        Instant begin{};  ///< of its first slice; before, the device changes to the client
    };

    std::size_t find(ClientId id) const;
    Slices decide() const;
    Instant change_under(const Slices& slices) const;
    void pass(Duration time);

    Duration slice_;
    Duration switch_cost_;
    std::vector<Entry> entries_;  ///< by id
    Slices slices_;
    Instant now_{};
};

}  // namespace salus::sim
