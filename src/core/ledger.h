// The sums of memory: reserved, owed, free, and about to be free.
//
// Clients' reservations and observed memory change only here, together with the sums. Lanes keeps each lane's charge. With C
// the capacity, P_i = reserved_i, and charge_l as in equation (3) of types.h:
//
//   (4)  persistent  =  sum over clients of reserved_i
//   (5)  reserved    =  persistent  +  sum over lanes of charge_l
//   (6)  debts       =  sum over clients of max(observed_i - reserved_i, 0)
//   (7)  free        =  max(C - reserved - debts, 0)
//   (8)  overdrawn   =  max(reserved + debts - C, 0)
//   (9)  coming      =  sum over clients that are being paged out of max(max(reserved_i, observed_i) - R_i, 0)
//                     + sum over lanes of (charge_l - max(L_l, the most that a stopped client has mapped of l))
//  (10)  reserved   <=  limit,   C <= limit
//
// (10) is the safety condition (2). The limit is C, except after C has fallen: then the limit is the reserved memory, and
// falls with it down to C.
#pragma once

#include "base/bytes.h"
#include "base/time.h"
#include "core/client.h"
#include "core/lanes.h"

namespace salus {

class Ledger {
public:
    /// Both must outlive the ledger.
    Ledger(Bytes capacity, const Clients& clients, const Lanes& lanes);
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;

    Bytes capacity() const { return capacity_; }
    /// The capacity when nobody else uses the device: the most that could ever fit.
    Bytes largest_capacity() const { return largest_capacity_; }
    Bytes persistent() const { return persistent_; }
    Bytes reserved() const { return persistent_ + lanes_.total_charge(); }
    Bytes debts() const { return debts_; }
    /// Debts count as used, whoever the memory was meant for.
    Bytes free() const;
    Bytes overdrawn() const;
    /// While this is true, nobody is admitted.
    bool in_debt() const { return reserved() > capacity_ || debts_ > Bytes{}; }
    /// Memory that is charged now and will soon be free without a further request.
    Bytes coming() const;

    void set_capacity(Bytes capacity);
    /// Also adds the memory time of the reservation so far.
    void set_reserved(Client& client, Bytes bytes, Instant now);
    void set_observed(Client& client, Bytes bytes);
    /// The client has no memory on the device any more.
    void clear(Client& client, Instant now);

    /// After each event, when all changes are made: lowers the limit, and checks equation (10).
    void settle();
    /// Recomputes the sums and checks equations (3) to (6). It visits every client: for the simulator and tests.
    void audit() const;

private:
    const Clients& clients_;
    const Lanes& lanes_;
    Bytes capacity_;
    Bytes largest_capacity_;
    Bytes limit_;
    Bytes persistent_;
    Bytes debts_;
};

}  // namespace salus
