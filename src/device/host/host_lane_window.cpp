#include "device/host/host_lane_window.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "device/host/write_guard.h"

namespace salus::device {
namespace {

/// Other threads may write to it meanwhile, as they may while fork() copies memory: of what they change, the child gets what
/// was there before or after. The thread sanitizer must not see that.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread"))) void* copy_as_fork_does(void* to, const void* from, std::size_t size) {
    const auto* const source = static_cast<const volatile std::byte*>(from);
    for (std::size_t i = 0; i < size; ++i) static_cast<volatile std::byte*>(to)[i] = source[i];
    return to;
}
#else
constexpr auto copy_as_fork_does = std::memcpy;
#endif

}  // namespace

// A child of fork() is not a client and must not see a lane.
HostLaneWindow::HostLaneWindow(std::byte* start, std::uint64_t size) : LaneWindow(start, size) {
    ::madvise(start, size, MADV_DONTFORK);
}

HostLaneWindow::~HostLaneWindow() { ::munmap(start(), size()); }

bool HostLaneWindow::add_memory(std::size_t first, std::vector<os::Descriptor> pieces) {
    if (first != 0 || pieces.size() != 1) return false;
    file_ = os::GuardedDescriptor(std::move(pieces[0]));
    return true;
}

bool HostLaneWindow::resize(std::uint64_t wanted) {
    if (wanted > size() || (wanted > 0 && !file_)) return false;
    bool ok = true;
    if (wanted > shown_) around_evacuated(shown_, wanted, [&](Range range) { ok = ok && show(range); });
    else around_evacuated(wanted, shown_, [&](Range range) { hide(range); });
    if (ok) shown_ = wanted;
    return ok;
}

void HostLaneWindow::drop() {
    resize(0);
    file_.reset();
}

bool HostLaneWindow::make_private(Range range) {
    const WriteGuard guard({{start() + range.offset, range.size}});
    void* copy = copy_of(range, std::memcpy);
    if (!copy || !move_in(copy, range)) return false;
    evacuated_[range.offset] = range.size;
    return true;
}

bool HostLaneWindow::restore(Range range) {
    evacuated_.erase(range.offset);
    const std::uint64_t inside = shown_ > range.offset ? std::min(range.size, shown_ - range.offset) : 0;
    hide(range);
    return inside == 0 || show({range.offset, inside});
}

// The parent's own blocks stay in place, because other threads may be using them. If there is no memory for a copy, the
// child finds nothing there.
void HostLaneWindow::before_fork(const std::vector<Range>& alive) {
    for (const Range& range : alive) {
        if (void* copy = copy_of(range, copy_as_fork_does)) for_child_.push_back({range, copy});
    }
}

void HostLaneWindow::after_fork_in_parent() {
    for (const auto& [range, copy] : std::exchange(for_child_, {})) ::munmap(copy, range.size);
}

void HostLaneWindow::after_fork_in_child() {
    // Reserve the addresses again before the child maps anything of its own there.
    around_evacuated(0, size(), [&](Range range) {
        ::mmap(start() + range.offset, range.size, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    });
    for (const auto& [range, copy] : std::exchange(for_child_, {})) move_in(copy, range);
    file_.reset();
}

/// Calls `act` for each part of [from, to) that was not evacuated.
template <typename Act>
void HostLaneWindow::around_evacuated(std::uint64_t from, std::uint64_t to, const Act& act) const {
    for (const auto& [offset, size] : evacuated_) {
        if (offset + size <= from || offset >= to) continue;
        if (offset > from) act(Range{from, offset - from});
        from = offset + size;
    }
    if (from < to) act(Range{from, to - from});
}

/// A private copy of this part of the lane; nullptr if there is no memory.
void* HostLaneWindow::copy_of(Range range, Copy how) const {
    void* copy = ::mmap(nullptr, range.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return nullptr;
    how(copy, start() + range.offset, range.size);
    return copy;
}

bool HostLaneWindow::move_in(void* copy, Range range) const {
    if (::mremap(copy, range.size, range.size, MREMAP_MAYMOVE | MREMAP_FIXED, start() + range.offset) != MAP_FAILED)
        return true;
    ::munmap(copy, range.size);
    return false;
}

bool HostLaneWindow::show(Range range) const {
    const int file = file_.get();
    void* at = file < 0 ? MAP_FAILED
                        : ::mmap(start() + range.offset, range.size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, static_cast<off_t>(range.offset));
    if (at == MAP_FAILED) {
        hide(range);
        return false;
    }
    ::madvise(at, range.size, MADV_DONTFORK);
    return true;
}

/// Empties the range but keeps it reserved.
void HostLaneWindow::hide(Range range) const {
    void* at = ::mmap(start() + range.offset, range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                      -1, 0);
    if (at != MAP_FAILED) ::madvise(at, range.size, MADV_DONTFORK);
}

}  // namespace salus::device
