// The GPU memory that a program has taken from the driver by itself, as the shim tells: for its limit, and for the service.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

namespace salus::library {

/// What the program has taken from the driver itself.
class Holdings {
public:
    /// `limit`: the most that may be held; 0: no limit.
    explicit Holdings(std::uint64_t limit) : limit_(limit) {}

    /// Sets the bytes aside: threads may ask at once. False: the limit does not allow it.
    bool reserve(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        if (limit_ > 0 && bytes > limit_ - std::min(limit_, total_)) return false;
        total_ += bytes;
        return true;
    }
    void unreserve(std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        total_ -= std::min(total_, bytes);
    }
    /// Bytes that were reserved have this name now, perhaps beside others.
    void name(std::uint64_t name, std::uint64_t bytes, const void* context) {
        const std::lock_guard lock(mutex_);
        Block& block = blocks_[name];
        block.bytes += bytes;
        block.context = context;
    }
    /// Takes it out. Returns its size, 0 if it is not known.
    std::uint64_t take_out(std::uint64_t name) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(name);
        return found == blocks_.end() ? 0 : erase(found);
    }
    void put_back(std::uint64_t name, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        blocks_[name].bytes += bytes;
        total_ += bytes;
    }

    // Memory made by cuMemCreate: its name is the handle, and it stays until it is released and mapped nowhere.
    void map(std::uint64_t address, std::uint64_t handle) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(handle);
        if (found == blocks_.end()) return;
        ++found->second.mappings;
        mappings_[address] = handle;
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto end = mappings_.lower_bound(address + bytes);
        for (auto at = mappings_.lower_bound(address); at != end; at = mappings_.erase(at)) {
            const auto found = blocks_.find(at->second);
            if (found == blocks_.end()) continue;
            if (--found->second.mappings == 0 && found->second.is_released) erase(found);
        }
    }
    void release(std::uint64_t handle) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(handle);
        if (found == blocks_.end()) return;
        found->second.is_released = true;
        if (found->second.mappings == 0) erase(found);
    }

    void drop_all_of(const void* context) {
        const std::lock_guard lock(mutex_);
        for (auto at = blocks_.begin(); at != blocks_.end();) {
            const auto block = at++;
            if (block->second.context == context) erase(block);
        }
    }

    std::uint64_t total() {
        const std::lock_guard lock(mutex_);
        return total_;
    }
    std::uint64_t limit() const { return limit_; }

private:
    struct Block {
        std::uint64_t bytes = 0;
        const void* context = nullptr;  ///< it ends with this one; nullptr: with none
        unsigned mappings = 0;
        bool is_released = false;
    };
    using Blocks = std::unordered_map<std::uint64_t, Block>;

    std::uint64_t erase(Blocks::iterator block) {
        const std::uint64_t bytes = block->second.bytes;
        total_ -= std::min(total_, bytes);
        blocks_.erase(block);
        return bytes;
    }

    std::mutex mutex_;
    Blocks blocks_;
    std::map<std::uint64_t, std::uint64_t> mappings_;  ///< handles, by address
    std::uint64_t total_ = 0;                          ///< with what is set aside
    const std::uint64_t limit_;
};

}  // namespace salus::library
