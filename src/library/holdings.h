// The GPU memory that a program has taken from the driver by itself, as the shim tells: for the service, and for the limit
// of the process, which also covers what the client's memory holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "client/memory.h"

namespace salus::library {

/// What the program has taken from the driver itself. Thread-safe.
class Holdings : public client::Limit {
public:
    /// `limit`: the most that may be held, with what the client's memory holds; 0: no limit.
    explicit Holdings(std::uint64_t limit) : limit_(limit) {}

    /// Sets the bytes aside: threads may ask at once. False: the limit does not allow it.
    bool reserve(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        if (bytes > left(served_)) return complain(bytes);
        total_ += bytes;
        return true;
    }
    void unreserve(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        total_ -= std::min(total_, bytes);
    }
    /// Bytes that were reserved have this name now, perhaps beside others. `context`: they end with it; 0: with none.
    void name(std::uint64_t name, std::uint64_t bytes, std::uint64_t context) {
        const std::lock_guard lock(mutex_);
        std::shared_ptr<Block>& block = blocks_[name];
        if (!block) block = std::make_shared<Block>();
        block->bytes += bytes;
        block->context = context;
    }
    /// The name is no longer its. Returns how much that frees: 0 if it is not known, or still mapped.
    std::uint64_t take_out(std::uint64_t name) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(name);
        return found == blocks_.end() ? 0 : erase(blocks_, found);
    }
    void put_back(std::uint64_t name, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        std::shared_ptr<Block>& block = blocks_[name];
        if (!block) block = std::make_shared<Block>();
        block->bytes += bytes;
        total_ += bytes;
    }

    // Memory made by cuMemCreate: its name is the handle, and it stays until it is taken out and mapped nowhere.
    void map(std::uint64_t address, std::uint64_t handle) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(handle);
        if (found == blocks_.end()) return;
        ++found->second->mappings;
        mappings_[address] = found->second;
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto end = mappings_.lower_bound(address + bytes);
        for (auto at = mappings_.lower_bound(address); at != end; at = mappings_.erase(at)) {
            --at->second->mappings;
            free_if_unused(*at->second);
        }
    }

    /// What was taken in this context is set aside, and no longer has names. Returns a number for it, until one of the
    /// others is called.
    std::uint64_t context_ends(std::uint64_t context) {
        const std::lock_guard lock(mutex_);
        Blocks& ending = endings_[++endings_so_far_];
        for (auto at = blocks_.begin(); at != blocks_.end();) {
            const auto block = at++;
            if (block->second->context == context) ending.insert(blocks_.extract(block));
        }
        return endings_so_far_;
    }
    void context_ended(std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        Blocks& ending = endings_[number];
        while (!ending.empty()) erase(ending, ending.begin());
        endings_.erase(number);
    }
    void context_stays(std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        blocks_.merge(endings_[number]);
        endings_.erase(number);
    }

    // ---- what the client's memory holds ----
    bool fits(std::uint64_t held) override {
        const std::lock_guard lock(mutex_);
        return held <= left(0);
    }
    bool hold(std::uint64_t held) override {
        const std::lock_guard lock(mutex_);
        if (held > left(0)) return complain(held - served_);
        served_ = held;
        return true;
    }
    void holds(std::uint64_t held) override {
        const std::lock_guard lock(mutex_);
        served_ = held;
    }

    /// Whether so much more may be held.
    bool fits_beside(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        return bytes <= left(served_);
    }

    std::uint64_t total() {
        const std::lock_guard lock(mutex_);
        return total_;
    }
    /// With what the client's memory holds, if there is a limit.
    std::uint64_t total_with_served() {
        const std::lock_guard lock(mutex_);
        return total_ + served_;
    }
    std::uint64_t limit() const { return limit_; }

private:
    struct Block {
        std::uint64_t bytes = 0;
        std::uint64_t context = 0;
        unsigned mappings = 0;
        bool has_name = true;
    };
    using Blocks = std::unordered_map<std::uint64_t, std::shared_ptr<Block>>;

    /// Tells the user once why an allocation fails. Returns false.
    bool complain(std::uint64_t more) {
        const auto text = [](std::uint64_t bytes) { return format_bytes({static_cast<std::int64_t>(bytes)}); };
        if (!std::exchange(complained_, true))
            std::fprintf(stderr, "salus: %s more do not fit: this process holds %s of the %s that --memory allows\n",
                         more < (1u << 20) ? "some KiB" : text(more).c_str(), text(total_ + served_).c_str(),
                         text(limit_).c_str());
        return false;
    }

    /// Of the limit, beside what the program has, and so much.
    std::uint64_t left(std::uint64_t beside) const {
        if (limit_ == 0) return ~std::uint64_t{0};
        const std::uint64_t without = limit_ - std::min(limit_, total_);
        return without - std::min(without, beside);
    }

    std::uint64_t erase(Blocks& from, Blocks::iterator found) {
        const std::shared_ptr<Block> block = std::move(found->second);
        from.erase(found);
        block->has_name = false;
        return free_if_unused(*block);
    }
    std::uint64_t free_if_unused(const Block& block) {
        if (block.has_name || block.mappings > 0) return 0;
        total_ -= std::min(total_, block.bytes);
        return block.bytes;
    }

    bool complained_ = false;
    std::mutex mutex_;
    Blocks blocks_;
    std::map<std::uint64_t, std::shared_ptr<Block>> mappings_;  ///< by address
    std::map<std::uint64_t, Blocks> endings_;                   ///< of contexts that are being destroyed
    std::uint64_t endings_so_far_ = 0;
    std::uint64_t total_ = 0;   ///< with what is set aside
    std::uint64_t served_ = 0;  ///< held by the client's memory
    const std::uint64_t limit_;
};

}  // namespace salus::library
