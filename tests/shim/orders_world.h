// What one process of a random program knows, and the actions that are drawn (orders.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/shim/orders_driver.h"

namespace orders {

// What programs with a sanitizer leave out. There is one runtime of it in a process: a driver in a namespace of its own
// would bring another, and one that is bound to itself first (RTLD_DEEPBIND) would pass it by. A child that was made while
// other threads ran may find a lock of the runtime's held for ever, and ends if a thread of its own gets the number of one
// of these.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// SplitMix64: the same numbers everywhere.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(mixed(seed)) {}
    std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15ull); }
    /// Of 0 to n - 1.
    int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
    bool once_in(int n) { return below(n) == 0; }
    template <typename T>
    T& of(std::vector<T>& all) {
        return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
    }

private:
    static std::uint64_t mixed(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

struct World {
    /// Something that was made in a context, and goes with it.
    struct Made {
        Handle context;
        Handle handle;
    };
    struct Block {
        Handle context;
        Address at;
    };

    Random random;
    std::string name;  ///< which process of the tree: "0" is the first, "0.2" its second child
    int children = 0;

    Driver driver = {};
    void* library = nullptr;  ///< that the driver was found in
    bool is_global = false;   ///< libcuda.so.1 is where RTLD_DEFAULT looks
    bool has_own_namespace = false;

    std::vector<Made> contexts = {};
    int primary_retained = 0;
    Handle current = nullptr;  ///< context of the main thread
    std::vector<Made> streams = {}, kernels = {};
    std::vector<Block> blocks = {};
    Block for_graphs = {};
    Made capturing = {};  ///< the stream
    /// The process, or one that waits for it, captures: it keeps its turn, and a program started now would wait for ever.
    bool keeps_turn() const { return capturing.handle || parent_captures; }
    bool parent_captures = false;
    bool is_forked = false;
    bool may_make_threads() const { return !kSanitized || !is_forked; }

    /// One line of output, in one write: nothing of it is twice after a fork.
    __attribute__((format(printf, 2, 3))) void say(const char* format, ...) const;
    /// A stream that does not capture, or one of the three that need not be made.
    Handle any_stream();
    Handle any_kernel() { return kernels.empty() ? nullptr : random.of(kernels).handle; }
    /// Launches the kernel that adds 1 to the first word of a block.
    Status launch(Handle kernel, Address at, Handle stream, unsigned microseconds) const;
    /// ... by a function that the user's library (preload.cpp) does not count: for launches whose number depends on time.
    Status launch_unseen(Handle kernel, Address at) const;
    /// With everything in it.
    void forget_context(Handle context);
};

struct Action {
    const char* name;
    int weight;
    void (*act)(World& world);
};

/// What needs one process, and how a process makes others.
std::span<const Action> gpu_actions();
std::span<const Action> process_actions();

/// Finds the driver in another way than before.
void find_driver(World& world);
/// cuInit, a context, a kernel, a block: what the other actions need to succeed.
void set_up(World& world);
/// Draws actions and carries them out.
void act(World& world, int count);

}  // namespace orders
