// Which threads use the client of this process at the moment.
//
// Note [Who uses the client]
// Launches pass the client in any thread of the program, and salus_detach frees it. So a thread sets a mark before it reads
// which client there is, and clears it when it needs the client no more. Who frees a client first sees to it that no thread
// finds it any more, and then waits until each mark has been seen clear.
//
// A launch must cost next to nothing. So the mark is the thread's own, and to set it is a plain store. The barrier that is
// missing between this store and the reading of the client is in wait_for_users(): it has the kernel put one into every
// thread that runs.
#pragma once

#include <cstddef>

#include "base/time.h"

namespace salus::client {

/// The calling thread uses the client from now on, until as many end_use(). Neither waits.
void begin_use();
void end_use();

/// Waits until every other thread that may have found what is no longer to be found has ended its use. False: one of them
/// takes longer than that, or this kernel cannot tell.
bool wait_for_users(Duration at_most);

/// In a child of fork(): the other threads are not there.
void forget_other_users();

/// For tests: how many marks there are. Threads take those that others have returned, and none is ever freed.
std::size_t count_use_marks();

}  // namespace salus::client
