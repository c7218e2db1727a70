// A thread of the library's own in somebody else's process.
#pragma once

#include <pthread.h>

namespace salus::client {

class OwnThread {
public:
    /// It takes no signals, which are meant for the job. False if there cannot be one. REQUIRES: none is to be joined.
    bool start(void* (*run)(void*), void* argument);
    /// Started, and not joined.
    bool is_there() const { return is_there_; }
    /// Waits for its end, if it is there.
    void join();
    /// In a child of fork(), which has none of its parent's threads: there is nothing to wait for.
    void forget() { is_there_ = false; }

private:
    pthread_t thread_{};
    bool is_there_ = false;
};

}  // namespace salus::client
