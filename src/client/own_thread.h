// A thread of the library in the job's process.
#pragma once

#include <pthread.h>

#include <atomic>

namespace salus::client {

class OwnThread {
public:
    /// Starts the thread with all signals blocked, because they are meant for the job. False if it cannot be started.
    /// REQUIRES: !is_there().
    bool start(void* (*run)(void*), void* argument);
    /// Started, and not joined.
    bool is_there() const { return is_there_; }
    /// Waits for the thread's end, if there is one.
    void join();
    /// In a child of fork(): the child has none of its parent's threads, so there is nothing to join.
    void forget() { is_there_ = false; }

private:
    pthread_t thread_{};
    std::atomic<bool> is_there_{false};
};

}  // namespace salus::client
