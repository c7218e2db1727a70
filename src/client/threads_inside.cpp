#include "client/threads_inside.h"

#include "os/thread.h"

namespace salus::client {
int ThreadsInside::enter() {
    const int me = os::this_thread();
    for (std::size_t place = 0; place < kPlaces; ++place) {
        int nobody = 0;
        if (threads_[place].compare_exchange_strong(nobody, me, std::memory_order_relaxed)) return static_cast<int>(place);
    }
    return -1;
}

void ThreadsInside::leave(int place) { threads_[static_cast<std::size_t>(place)].store(0, std::memory_order_relaxed); }

bool ThreadsInside::Watch::rest() {
    bool rest = looked_;
    looked_ = true;
    for (std::size_t place = 0; place <= kPlaces; ++place) {
        const int thread = place < kPlaces ? threads_.threads_[place].load(std::memory_order_relaxed) : also_;
        const Seen now{thread, thread == 0 ? 0 : os::cpu_ns_of_thread(thread)};
        if (now.thread != before_[place].thread || now.ran_ns != before_[place].ran_ns) rest = false;
        else if (rest && thread != 0 && os::thread_runs(thread)) rest = false;
        before_[place] = now;
    }
    return rest;
}

}  // namespace salus::client
