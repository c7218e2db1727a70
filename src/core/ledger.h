// The sums of memory: what is reserved, owed, free, and about to be free.
//
// Clients' reservations and what they were observed to use change here alone, and the sums with them; each lane's charge is
// kept by Lanes. With C the capacity, P_i = reserved_i, and charge_l as in equation (3) of types.h:
//
//   (4)  persistent  =  sum over clients of reserved_i
//   (5)  reserved    =  persistent  +  sum over lanes of charge_l
//   (6)  debts       =  sum over clients of max(observed_i - reserved_i, 0)
//   (7)  free        =  max(C - reserved - debts, 0)
//   (8)  overdrawn   =  max(reserved + debts - C, 0)
//   (9)  coming      =  sum over clients that are being paged out of max(reserved_i, observed_i)
//                     + sum over lanes of (charge_l - max(L_l, the most that a stopped client has mapped of l))
//  (10)  reserved   <=  limit,   C <= limit
//
// (10) is the safety condition (2). The limit is C, except after C has fallen: then it is what was reserved, and follows
// that down to C.
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
    /// What the device has when nobody else uses it: what could ever fit.
    Bytes largest_capacity() const { return largest_capacity_; }
    Bytes persistent() const { return persistent_; }
    Bytes reserved() const { return persistent_ + lanes_.total_charge(); }
    Bytes debts() const { return debts_; }
    /// What is owed is in use, whoever it was meant for.
    Bytes free() const;
    Bytes overdrawn() const;
    /// While this holds nobody is admitted.
    bool in_debt() const { return reserved() > capacity_ || debts_ > Bytes{}; }
    /// What is charged now and will be free soon, without another request.
    Bytes coming() const;

    void set_capacity(Bytes capacity);
    /// Also counts the memory time of what it had reserved until now.
    void set_reserved(Client& client, Bytes bytes, Instant now);
    void set_observed(Client& client, Bytes bytes);
    /// Nothing of it is on the device any more.
    void clear(Client& client, Instant now);

    /// After each event, when all changes are made: lowers the limit, and checks equation (10).
    void settle();
    /// Works out the sums anew and checks equations (3) to (6). It looks at every client: for the simulator and tests.
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
