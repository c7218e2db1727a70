// Gates and requests: a client's work on the device stands still while its gate is closed.
#include <algorithm>
#include <utility>

#include "sim/simulation.h"

namespace salus::sim {

void Simulation::request_begins(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.marks_requests && (c.request = c.marks.begin())) notify(id);
}

/// The client's thread has given the device all of its work; the device may still be at it.
void Simulation::request_ends(ClientId id) {
    SimulatedClient& c = at(id);
    if (!c.request) return;
    c.ending.push_back(*std::exchange(c.request, std::nullopt));
    schedule(Pending::Kind::kRequestDone, id, draw(options_.answer_delay_max));
}

void Simulation::request_is_done(ClientId id) {
    SimulatedClient& c = at(id);
    if (!goes_wrong(Fault::kLosesAnswer)) c.marks.end(c.ending.front());
    c.ending.pop_front();
    expect_look_at_requests();
}

/// The service polls; the simulator knows when there is something to see.
void Simulation::expect_look_at_requests() {
    if (!shell_ || !shell_->awaits_requests()) return;
    const Duration every = engine().gates().are_closed() ? shell::Shell::kLookWhileClosed : shell::Shell::kLookEvery;
    look_at_requests_ = std::min(look_at_requests_, now() + every);
}

/// Gates may have been opened or closed, by the service or by their clients.
void Simulation::heed_gates() {
    bool changed = false;
    for (std::size_t i = 0; i < world_.clients.size(); ++i) {
        SimulatedClient& c = world_.clients[i];
        const std::uint32_t word = c.page->gates.gate.load();
        if (!c.here() || std::exchange(c.gate_seen, word) == word) continue;
        if (GatePage::is_open(word)) {
            if (std::exchange(c.gated, false)) changed = true;
            expect_look_at_requests();  // the service closes it again
            continue;
        }
        c.gate_closed_at = now();
        schedule(Pending::Kind::kGateHolds, ClientId(i), options_.gate_delay);
        schedule(Pending::Kind::kLookAtGate, ClientId(i), kGateClosedMost);
    }
    if (changed) update_rates();
}

void Simulation::gate_holds(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.gated || !c.puts_gates || c.page->gates.is_open()) return;
    c.gated = true;
    update_rates();
}

/// The client's helper opens a gate that nobody else opens. If it was opened and closed again since this was
/// planned, there is another look to come.
void Simulation::look_at_gate(ClientId id) {
    SimulatedClient& c = at(id);
    if (c.stopped || c.page->gates.is_open() || now() < c.gate_closed_at + kGateClosedMost) return;
    c.page->gates.open();
    heed_gates();
}

void Simulation::disarm(ClientId id) {
    SimulatedClient& c = at(id);
    c.puts_gates = c.marks_requests = false;
    c.page->gates.open();
    heed_gates();
}

void Simulation::sabotage_gates(const Action& action) {
    const bool opens = std::holds_alternative<action::OpenGates>(action);
    const bool closes = std::holds_alternative<action::CloseGates>(action);
    if (!opens && !closes) return;
    for (const SimulatedClient& c : clients()) {
        if (!c.here() || !c.connected) continue;
        if (opens && c.puts_gates && goes_wrong(Fault::kKeepsGateClosed)) c.page->gates.close();
        if (closes && c.marks_requests && goes_wrong(Fault::kClosesEveryGate)) c.page->gates.close();
    }
}

}  // namespace salus::sim
