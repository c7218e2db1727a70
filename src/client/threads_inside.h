// Which threads of this process are inside an iteration, and whether they do anything.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace salus::client {

class ThreadsInside {
public:
    /// The calling thread; gives its place, for leave(). -1: there are too many, and it is not noted.
    int enter();
    void leave(int place);

    static constexpr std::size_t kPlaces = 64;
    /// Looks at them again and again: have they rested since the last look?
    class Watch {
    public:
        explicit Watch(const ThreadsInside& threads) : threads_(threads) {}
        /// True if the same ones are inside as at the last look, and none has run since. The first look is none to go by.
        bool rest();

    private:
        const ThreadsInside& threads_;
        struct Seen {
            int thread = 0;
            std::uint64_t ran_ns = 0;
        };
        std::array<Seen, kPlaces> before_{};
        bool looked_ = false;
    };

private:
    std::array<std::atomic<int>, kPlaces> threads_{};  ///< by their kernel's number; 0: nobody
};

}  // namespace salus::client
