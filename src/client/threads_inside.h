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
        /// `also`: a thread that may be inside, and was not noted; 0: none.
        explicit Watch(const ThreadsInside& threads, int also = 0) : threads_(threads), also_(also) {}
        /// True if the same ones are inside as at the last look, and none has run since. The first look is none to go by.
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
    std::array<std::atomic<int>, kPlaces> threads_{};  ///< by their kernel's number; 0: nobody
};

}  // namespace salus::client
