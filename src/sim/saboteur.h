// Breaks an engine on purpose, for canaries: it leaves the engine in a state as a bug would. Only the swarm uses it.
#pragma once

#include "core/engine.h"

namespace salus {

class Saboteur {
public:
    explicit Saboteur(const Engine& engine) : engine_(const_cast<Engine&>(engine)) {}  // the simulation owns it

    /// The engine counts half of the client's memory on the device as free.
    void forget_half_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (client) engine_.set_reserved(*client, {client->reserved().count / 2});
    }
    /// The engine forgets that the client waits for its turn.
    void forget_wish_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (client && client->turn() == Turn::kReady) engine_.move_turn(*client, Turn::kParked);
    }
    /// The engine takes the client's lane for one beside, or for one that takes turns.
    void set_beside(ClientId id, bool beside) {
        const Client* client = engine_.clients_.find(id);
        if (client && client->lane != kNoLane) engine_.lanes_.at(client->lane).beside = beside;
    }

    void forget_budget() { engine_.gates_.lately_.clear(); }

private:
    Engine& engine_;
};

}  // namespace salus
