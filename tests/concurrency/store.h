// Blocks whose content is known at every moment: what the threads of a random program allocate, write, check and free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "salus/salus.h"

namespace salus::concurrency {

/// Where a thread is in its program, for the line that tells of a failure.
struct Place {
    std::uint64_t seed = 0;
    int thread = 0;
    int iteration = 0;
    const char* step = "";
};
extern thread_local Place place;

/// Prints what is wrong and where, and ends the process with status 1. Allocates nothing: a child of fork calls it, too.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// If a call of Salus did not work.
void must(salus_status status, const char* call);

/// The n-th number that belongs to a seed.
std::uint64_t mix(std::uint64_t seed, std::uint64_t n);

struct Block {
    void* start = nullptr;
    std::size_t size = 0;
    std::uint64_t seed = 0;     ///< of its content
    std::uint64_t version = 0;  ///< how often it was written
    bool is_native = false;     ///< Salus did not serve it
    void* stream = nullptr;     ///< for which it was allocated
    void* last_stream = nullptr;
    std::vector<void*> told = {};  ///< streams that salus_used_on has named
};

struct Request {
    std::size_t size = 0;
    salus_kind kind = SALUS_AUTO;
    std::uint64_t seed = 0;
    unsigned stream = 0;
    bool on_behalf = false;
};

/// Memory of one device. Any thread may call; of one block, one thread at a time.
class Store {
public:
    virtual ~Store() = default;

    /// The first call of each thread.
    virtual void enter_thread() {}
    /// What Salus does not serve comes from elsewhere.
    virtual Block allocate(const Request& request) = 0;
    /// Works on the block in place: its next version.
    virtual void write(Block& block, unsigned stream) = 0;
    /// Fails if a byte is not what was written; else a number that depends on every byte that was read.
    virtual std::uint64_t read(const Block& block) = 0;
    virtual void free(Block& block) = 0;
    /// Changes a byte behind the store's back: the next read() has to fail.
    virtual void corrupt(Block& block) = 0;

    /// Blocks that Salus had no room for.
    std::uint64_t denied() const { return denied_; }
    virtual bool can_fork() const { return false; }
    /// The first is the home stream.
    virtual unsigned streams() const { return 1; }
    /// Runs `then` while a stream is being captured; the block's next version comes from what was captured.
    virtual void capture(Block& block, const std::function<void()>& then) { then(), write(block, 0); }
    /// Runs `then` while another GPU is current.
    virtual void elsewhere(const std::function<void()>& then) { then(); }

protected:
    std::atomic<std::uint64_t> denied_{0};
};

std::unique_ptr<Store> make_host_store(salus_client* client);
/// A GPU by libcuda.so.1: a real one, or the stand-in. `seed` chooses the home stream.
std::unique_ptr<Store> make_cuda_store(salus_client* client, std::uint64_t seed);

}  // namespace salus::concurrency
