// A thread that enters no iteration and allocates for others, who wait for it: as autograd's do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/concurrency/store.h"

namespace salus::concurrency {

class Delegate {
public:
    /// `note` is told what was read.
    Delegate(Store& store, std::function<void(std::uint64_t)> note)
        : store_(store), note_(std::move(note)), thread_([this, seed = place.seed] { run(seed); }) {}
    Delegate(const Delegate&) = delete;
    Delegate& operator=(const Delegate&) = delete;
    ~Delegate() {
        post({});
        thread_.join();
    }

    /// Waits until it is done; the result is the caller's to free.
    Block work(std::uint64_t seed) {
        Task task([this, seed] { return compute(seed); });
        std::future<Block> result = task.get_future();
        post(std::move(task));
        return result.get();
    }

private:
    using Task = std::packaged_task<Block()>;
    static constexpr std::size_t kMiB = std::size_t{1} << 20;

    void post(Task task) {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        posted_.notify_one();
    }

    void run(std::uint64_t seed) {
        place = {seed, 200, 0, "as a delegate"};
        store_.enter_thread();
        for (;;) {
            std::unique_lock lock(mutex_);
            posted_.wait(lock, [this] { return !tasks_.empty(); });
            Task task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            if (!task.valid()) return;
            task();
        }
    }

    Block compute(std::uint64_t seed) {
        Block gradient = take(seed, 0);
        for (std::uint64_t i = 1; i <= seed % 4; ++i) {
            Block next = take(seed, i);
            note_(store_.read(gradient));
            store_.free(gradient);
            gradient = std::move(next);
        }
        return gradient;
    }
    Block take(std::uint64_t seed, std::uint64_t number) {
        const std::uint64_t own = mix(seed, number);
        Block block = store_.allocate({.size = (1 + own % 3) * kMiB, .seed = own, .on_behalf = true});
        for (std::uint64_t i = 0; i < 1 + own % 4; ++i) store_.write(block, 0);
        return block;
    }

    Store& store_;
    std::function<void(std::uint64_t)> note_;
    std::mutex mutex_;
    std::condition_variable posted_;
    std::deque<Task> tasks_;
    std::thread thread_;
};

}  // namespace salus::concurrency
