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
    /// The engine counts what the client has left on the device as free.
    void forget_rest_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (!client || client->residency() != Residency::kPaged) return;
        client->rest = {};
        engine_.ledger_.clear(*client, engine_.now_);
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
    /// The engine forgets that the client belongs to a crew.
    void forget_crew_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (!client || client->crew == kNoJob || client->holds()) return;
        client->crew = kNoJob;
        --engine_.in_crews_;
    }
    /// The engine takes the client for a member of a crew that it does not belong to.
    void put_into_crew(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (!client || client->crew != kNoJob || !client->profiled || client->holds()) return;
        for (const Client* other : engine_.clients_.all()) {
            if (other->crew == kNoJob || other->facts.user != client->facts.user) continue;
            client->crew = other->crew;
            ++engine_.in_crews_;
            return;
        }
    }

    /// The engine forgets that the client is suspended.
    void forget_suspension_of(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (!client) return;
        client->suspended = false;
        engine_.became_ready(*client);
    }
    /// The engine does not page the client out.
    void refuse_to_page(ClientId id) {
        Client* client = engine_.clients_.find(id);
        if (client && client->residency() == Residency::kResident) client->pageable = false;
    }
    /// The engine forgets that the job must not start.
    void forget_hold_of(JobId job) { engine_.starts_.hold(job, false); }

    /// The engine forgets that one user has the device at a time.
    void forget_users() { engine_.options_.share_by_user = false; }

    /// The engine takes what a single trial shows for certain.
    void decide_by_noise() {
        engine_.overlap_.enough_ = 1;
        engine_.overlap_.sure_ = 0;
    }

    void forget_budget() { engine_.gates_.closed_.spans_.clear(); }

private:
    Engine& engine_;
};

}  // namespace salus
