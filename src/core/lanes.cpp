#include "core/lanes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace salus {

Bytes Lane::required() const {
    Bytes most;
    for (const Mapping& m : mappings) {
        if (m.member) most = std::max(most, m.ephemeral);
    }
    return most;
}

std::size_t Lane::members() const {
    return static_cast<std::size_t>(
        std::count_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.member; }));
}

const Mapping* Lane::mapping(ClientId client) const {
    const auto found = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& m) { return m.client == client; });
    return found == mappings.end() ? nullptr : &*found;
}

Mapping* Lane::mapping(ClientId client) { return const_cast<Mapping*>(std::as_const(*this).mapping(client)); }

Lane& Lanes::at(LaneId id) {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.id == id; });
    SALUS_CHECK(found != lanes_.end(), "no such lane");
    return *found;
}

const Lane* Lanes::find(LaneId id) const {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.id == id; });
    return found == lanes_.end() ? nullptr : &*found;
}

std::optional<Placement> Lanes::place(const PlacementRequest& request, Bytes free) const {
    const Bytes room = free - request.persistent;
    if (room < Bytes{}) return std::nullopt;

    const Lane* best_fit = nullptr;
    const Lane* to_grow = nullptr;
    bool has_lane = false;
    for (const Lane& lane : lanes_) {
        // A lane without members is about to be removed: it is charged until it is unmapped, but nobody joins it.
        if (lane.user != request.user || lane.beside != request.beside || lane.blocked || !lane.has_members()) continue;
        has_lane = true;
        if (!request.may_share) continue;
        if (lane.size >= request.ephemeral) {
            // If several fit equally well, take the one with the fewest members.
            const bool fewer = best_fit && lane.size == best_fit->size && lane.members() < best_fit->members();
            if (!best_fit || lane.size < best_fit->size || fewer) best_fit = &lane;
        } else if (std::max(request.ephemeral, lane.charge) - lane.charge <= room) {
            if (!to_grow || lane.size < to_grow->size) to_grow = &lane;
        }
    }
    if ((request.may_open || !has_lane) && request.ephemeral <= room) {
        return Placement{Placement::Kind::kOpen, kNoLane, request.ephemeral};
    }
    if (best_fit) return Placement{Placement::Kind::kJoin, best_fit->id, best_fit->size};
    if (to_grow) return Placement{Placement::Kind::kGrow, to_grow->id, request.ephemeral};
    return std::nullopt;
}

LaneId Lanes::open(UserId user, Bytes size, bool beside) {
    Lane lane;
    lane.id = LaneId{next_lane_++};
    lane.user = user;
    lane.beside = beside;
    lane.size = size;
    lanes_.push_back(std::move(lane));
    recharge(lanes_.back());
    return lanes_.back().id;
}

const Mapping& Lanes::join(LaneId id, ClientId client, Bytes ephemeral) {
    Lane& lane = at(id);
    SALUS_CHECK(ephemeral <= lane.size, "a member's T exceeds its lane");
    Mapping* mapping = lane.mapping(client);
    if (!mapping) {
        mapping = &lane.mappings.emplace_back();
        mapping->client = client;
    }
    mapping->member = true;
    mapping->ephemeral = ephemeral;
    mapping->mapped = std::max(mapping->mapped, lane.size);
    mapping->target = lane.size;
    mapping->version = ++next_version_;
    mapping->settled = false;
    recharge(lane);
    return *mapping;
}

const Mapping& Lanes::part(LaneId id, ClientId client) {
    Mapping* mapping = at(id).mapping(client);
    SALUS_CHECK(mapping && mapping->member, "not a member of this lane");
    mapping->member = false;
    mapping->ephemeral = Bytes{};
    mapping->target = Bytes{};
    mapping->version = ++next_version_;
    mapping->settled = false;
    return *mapping;
}

void Lanes::resize(LaneId id, Bytes size) {
    Lane& lane = at(id);
    SALUS_CHECK(size >= lane.required(), "a lane may not become smaller than a member's T");
    lane.size = size;
    for (Mapping& m : lane.mappings) {
        if (!m.member) continue;
        m.mapped = std::max(m.mapped, size);
        m.target = size;
        m.version = ++next_version_;
        m.settled = false;
    }
    recharge(lane);
}

bool Lanes::acknowledge(LaneId id, ClientId client, std::uint32_t version) {
    const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.id == id; });
    Mapping* mapping = lane == lanes_.end() ? nullptr : lane->mapping(client);
    if (!mapping || version > mapping->version) return false;
    if (version < mapping->version) return true;  // answers a request that a later one replaced
    if (mapping->settled) return false;
    mapping->settled = true;
    mapping->mapped = mapping->target;
    if (!mapping->member) lane->mappings.erase(lane->mappings.begin() + (mapping - lane->mappings.data()));
    recharge(*lane);
    return true;
}

void Lanes::forget(ClientId client) {
    for (Lane& lane : lanes_) {
        std::erase_if(lane.mappings, [&](const Mapping& m) { return m.client == client; });
        recharge(lane);
    }
}

void Lanes::close_empty() {
    for (Lane& lane : lanes_) {
        if (lane.has_members()) continue;
        SALUS_CHECK(lane.holder == kNoClient, "an empty lane has no holder");
        lane.size = Bytes{};
        recharge(lane);
    }
    std::erase_if(lanes_, [](const Lane& lane) { return lane.mappings.empty() && lane.size == Bytes{}; });
}

void Lanes::recharge(Lane& lane) {
    total_charge_ -= lane.charge;
    lane.charge = lane.size;
    for (const Mapping& m : lane.mappings) lane.charge = std::max(lane.charge, m.mapped);
    total_charge_ += lane.charge;
}

}  // namespace salus
