// Lets a test hold up a thread.
#pragma once

#include <condition_variable>
#include <mutex>

namespace salus::client::test {

/// Holds up every thread that calls pass(), until open().
class Gate {
public:
    void pass() {
        std::unique_lock lock(mutex_);
        is_reached_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return is_open_; });
    }
    void wait_until_reached() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_reached_; });
    }
    void open() {
        const std::lock_guard lock(mutex_);
        is_open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_reached_ = false;
    bool is_open_ = false;
};

}  // namespace salus::client::test
