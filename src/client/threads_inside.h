// Which threads of this process are inside an iteration, and whether they run.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace salus::client {

class ThreadsInside {
public:
    /// Adds the calling thread and returns its place, for leave(). -1: there are too many threads, and it was not added.
    int enter();
    void leave(int place);

    static constexpr std::size_t kPlaces = 64;
    /// Tells from look to look whether the threads have rested.
    class Watch {
    public:
        /// `also`: a thread that may be inside without having been added; 0: none.
        explicit Watch(const ThreadsInside& threads, int also = 0) : threads_(threads), also_(also) {}
        /// True if the same threads are inside as at the last look, and none has run since. False at the first look.
        bool rest();

    private:
        const ThreadsInside& threads_;
        struct Seen {
            int thread = 0;
            std::uint64_t ran_ns = 0;
        };
        const int also_;
        std::array<Seen, kPlaces + 1> before_{};
        bool looked_ = false;
    };

private:
    std::array<std::atomic<int>, kPlaces> threads_{};  ///< kernel thread ids; 0: nobody
};

}  // namespace salus::client
