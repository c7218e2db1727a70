// Lanes: how large each is, who is in it, and what it is charged for.
//
// Lanes know neither the order of turns nor time: the engine decides, and this class keeps equations (1) and (3) of types.h.
// The sums over lanes and clients are in ledger.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "core/types.h"

namespace salus {

/// One client's mapping of one lane. It outlives membership: a client that left has the lane mapped until it acknowledges
/// the request to unmap.
struct Mapping {
    ClientId client = kNoClient;
    bool member = true;
    Bytes ephemeral;            ///< its T, while it is a member
    Bytes mapped;               ///< at most this much is mapped in the client now
    Bytes target;               ///< what it was last asked to map; 0: to unmap
    std::uint32_t version = 0;  ///< version of that request
    bool settled = false;       ///< it has acknowledged that version
};

struct Lane {
    LaneId id = kNoLane;
    UserId user{};
    bool beside = false;  ///< its clients run whoever else runs: Note [Beside] in turns.cpp
    Bytes size;
    Bytes charge;  ///< equation (3)
    std::vector<Mapping> mappings;

    // Turns, kept by the engine.
    ClientId holder = kNoClient;
    ClientId last_holder = kNoClient;
    Instant yield_at = kNever;              ///< when the holder is to be asked to yield
    bool blocked = false;                   ///< its holder has been stopped for long, so nobody joins it
    std::vector<const ClientFacts*> ready;  ///< members that want to run and could

    /// The largest T of its members: the minimum size of the lane.
    Bytes required() const;
    std::size_t members() const;
    bool has_members() const { return members() > 0; }
    Mapping* mapping(ClientId client);
    const Mapping* mapping(ClientId client) const;
};

/// Where a newcomer goes.
struct Placement {
    enum class Kind : std::uint8_t { kOpen, kJoin, kGrow };
    Kind kind{};
    LaneId lane = kNoLane;  ///< to join or grow; none for kOpen
    Bytes size;             ///< the lane's size afterwards
};

/// Who asks for a place.
struct PlacementRequest {
    UserId user{};
    Bytes persistent;  ///< still to be charged; 0 when it is on the device already
    Bytes ephemeral;
    bool may_open = true;   ///< the policy wants one more lane
    bool may_share = true;  ///< it may go into a lane that others are in
    bool beside = false;    ///< a lane beside, or else one whose clients take turns
};

class Lanes {
public:
    std::vector<Lane>& all() { return lanes_; }
    const std::vector<Lane>& all() const { return lanes_; }
    Lane& at(LaneId id);
    const Lane* find(LaneId id) const;

    /// Sum of charge_l over all lanes.
    Bytes total_charge() const { return total_charge_; }
    /// Steps 1 to 3 of the assignment: open, else join by best fit, else grow the smallest that makes it fit.
    /// A user without a lane of this kind may always open one: lanes of different users are never shared.
    std::optional<Placement> place(const PlacementRequest& request, Bytes free) const;

    LaneId open(UserId user, Bytes size, bool beside = false);

    /// Makes `client` a member and returns the mapping to be requested of it. REQUIRES: size >= ephemeral, same user.
    const Mapping& join(LaneId lane, ClientId client, Bytes ephemeral);
    /// Ends membership. The mapping stays charged; returns it with the request to unmap.
    const Mapping& part(LaneId lane, ClientId client);
    /// Changes the size; every member's mapping then holds a new request. REQUIRES: size >= required().
    void resize(LaneId lane, Bytes size);
    /// False if no such request is outstanding.
    bool acknowledge(LaneId lane, ClientId client, std::uint32_t version);
    /// The client's process is gone, and its mappings with it.
    void forget(ClientId client);
    /// Removes lanes without members: at once if nobody has them mapped, else when the last unmaps.
    void close_empty();

private:
    void recharge(Lane& lane);

    std::vector<Lane> lanes_;
    Bytes total_charge_;
    std::uint32_t next_lane_ = 0;
    std::uint32_t next_version_ = 0;
};

}  // namespace salus
