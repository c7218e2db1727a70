#include "client/private_heap.h"

#include <algorithm>

namespace salus::client {
namespace {

/// A client may keep this much freed memory, plus a share of what it uses.
constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

}  // namespace

PrivateHeap::PrivateHeap(device::PrivateWindow& window)
    : window_(window), arena_(window.size()), leftovers_([this](device::Range range) { window_.discard(range); }) {}

bool PrivateHeap::go_on(Backing& backing) {
    while (!backing.complete() && window_.back(backing.missing[backing.done])) ++backing.done;
    return backing.complete();
}

void PrivateHeap::break_off(const Backing& backing, Leftovers::Age age) {
    leftovers_.add(backing.range, age);
    for (std::size_t i = backing.done; i < backing.missing.size(); ++i) leftovers_.take(backing.missing[i]);
}

void PrivateHeap::free(device::Range range, bool keep, Leftovers::Age age) {
    arena_.free(range.offset);
    if (keep) leftovers_.add(range, age);
    else window_.discard(range);
}

void PrivateHeap::count(std::int64_t change) {
    in_use_ += static_cast<std::uint64_t>(change);
    peak_ = std::max(peak_, in_use_);
}

std::uint64_t PrivateHeap::may_be_kept() const { return in_use_ / 2 + kKeptBytes; }

}  // namespace salus::client
