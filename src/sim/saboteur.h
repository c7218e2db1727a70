// Breaks an engine on purpose, for canaries: it leaves a state behind as a bug of the engine would. Only the swarm uses it.
#pragma once

#include "core/engine.h"

namespace salus {

class Saboteur {
public:
    explicit Saboteur(const Engine& engine) : engine_(const_cast<Engine&>(engine)) {}  // the simulation owns it

    /// Half of what a client has on the device counts as free.
    void forget_half_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (client) engine_.set_reserved(*client, {client->reserved().count / 2});
    }
    /// One that waits for its turn is taken to want nothing.
    void forget_wish_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (client && client->turn() == Turn::kReady) engine_.move_turn(*client, Turn::kParked);
    }

private:
    Engine& engine_;
};

}  // namespace salus
