#include "core/ledger.h"

#include <algorithm>

#include "base/check.h"

namespace salus {

Ledger::Ledger(Bytes capacity, const Clients& clients, const Lanes& lanes)
    : clients_(clients), lanes_(lanes), capacity_(capacity), largest_capacity_(capacity), limit_(capacity) {}

Bytes Ledger::free() const { return std::max(capacity_ - reserved() - debts_, Bytes{}); }

Bytes Ledger::overdrawn() const { return std::max(reserved() + debts_ - capacity_, Bytes{}); }

Bytes Ledger::coming() const {
    Bytes sum;
    for (const Client* client : clients_.all()) {
        if (client->being_paged_out()) sum += client->frees();
    }
    for (const Lane& lane : lanes_.all()) {
        Bytes stays = lane.size;
        for (const Mapping& m : lane.mappings) {
            if (clients_.at(m.client).stopped) stays = std::max(stays, m.mapped);
        }
        sum += lane.charge - stays;
    }
    return sum;
}

void Ledger::set_capacity(Bytes capacity) {
    capacity_ = capacity;
    largest_capacity_ = std::max(largest_capacity_, capacity_);
    limit_ = std::max(capacity_, reserved());
}

void Ledger::set_reserved(Client& client, Bytes bytes, Instant now) {
    SALUS_CHECK(bytes >= Bytes{}, "no reservation is negative");
    client.memory_time_gib_s += client.reserved_.mib() / 1024.0 * (now - client.accrued_at).seconds();
    client.accrued_at = now;
    persistent_ += bytes - client.reserved_;
    debts_ -= client.debt();
    client.reserved_ = bytes;
    debts_ += client.debt();
}

void Ledger::set_observed(Client& client, Bytes bytes) {
    SALUS_CHECK(bytes >= Bytes{}, "nobody uses less than nothing");
    debts_ -= client.debt();
    client.observed_ = bytes;
    debts_ += client.debt();
}

void Ledger::clear(Client& client, Instant now) {
    set_observed(client, Bytes{});
    set_reserved(client, Bytes{}, now);
}

void Ledger::settle() {
    limit_ = std::max(capacity_, std::min(limit_, reserved()));
    SALUS_CHECK(persistent_ >= Bytes{} && debts_ >= Bytes{} && lanes_.total_charge() >= Bytes{}, "no sum is negative");
    SALUS_CHECK(reserved() <= limit_, "sum of P and of lanes exceeds the capacity");
}

void Ledger::audit() const {
    Bytes persistent;
    Bytes debts;
    for (const Client* client : clients_.all()) {
        persistent += client->reserved_;
        debts += client->debt();
    }
    Bytes charges;
    for (const Lane& lane : lanes_.all()) {
        Bytes largest = lane.size;
        for (const Mapping& m : lane.mappings) largest = std::max(largest, m.mapped);
        SALUS_CHECK(lane.charge == largest, "a lane is charged for the most that anyone has mapped of it");
        charges += lane.charge;
    }
    SALUS_CHECK(persistent == persistent_, "the sum of reservations is right");
    SALUS_CHECK(debts == debts_, "the sum of debts is right");
    SALUS_CHECK(charges == lanes_.total_charge(), "the sum of charges is right");
}

}  // namespace salus
