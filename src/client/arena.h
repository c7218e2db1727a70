// Allocates ranges in [0, limit): best fit, lowest address first; neighbouring gaps are merged. It touches no memory.
//
// The same sequence of calls gives the same offsets. So the peak in a replay of an iteration is exactly what the lane will
// need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace salus::client {

class Arena {
public:
    /// Sizes are rounded up to this: whole pages, so that each range can be remapped by itself.
    static constexpr std::uint64_t kGranule = 64 * 1024;

    explicit Arena(std::uint64_t limit) : limit_(limit) {}

    static constexpr std::uint64_t rounded(std::uint64_t size) { return (size + kGranule - 1) / kGranule * kGranule; }

    /// Nothing if no gap below the limit is large enough. REQUIRES: size > 0.
    std::optional<std::uint64_t> allocate(std::uint64_t size);
    /// REQUIRES: `offset` came from allocate() and has not been freed since.
    void free(std::uint64_t offset);

    /// Ranges in use beyond a lowered limit stay; nothing new is placed there.
    void set_limit(std::uint64_t limit) { limit_ = limit; }
    std::uint64_t limit() const { return limit_; }
    std::uint64_t in_use() const { return in_use_; }
    /// The end of the highest range since reset_peak().
    std::uint64_t peak() const { return peak_; }
    void reset_peak();
    /// Offset and size of each range in use.
    const std::map<std::uint64_t, std::uint64_t>& used() const { return used_; }
    /// How large the limit would have to be for this request to fit.
    std::uint64_t limit_for(std::uint64_t size) const;

private:
    void add_gap(std::uint64_t offset, std::uint64_t size);
    void remove_gap(std::uint64_t offset, std::uint64_t size);

    std::uint64_t limit_;
    std::uint64_t end_ = 0;  ///< everything beyond is free
    std::uint64_t peak_ = 0;
    std::uint64_t in_use_ = 0;
    std::map<std::uint64_t, std::uint64_t> used_;
    std::map<std::uint64_t, std::uint64_t> gaps_;                     ///< below end_, by offset
    std::set<std::pair<std::uint64_t, std::uint64_t>> gaps_by_size_;  ///< (size, offset)
};

}  // namespace salus::client
