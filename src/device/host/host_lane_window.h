// A lane, which is a memfd, in a client's address space.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "device/device.h"
#include "os/guarded_descriptor.h"

namespace salus::device {

class HostLaneWindow : public LaneWindow {
public:
    /// REQUIRES: the span is reserved. It is unmapped in the end.
    HostLaneWindow(std::byte* start, std::uint64_t size);
    ~HostLaneWindow() override;

    bool add_memory(std::size_t first, std::vector<os::Descriptor> pieces) override;
    bool resize(std::uint64_t size) override;
    void drop() override;
    bool make_private(Range range) override;
    bool restore(Range range) override;
    void before_fork(const std::vector<Range>& alive) override;
    void after_fork_in_parent() override;
    void after_fork_in_child() override;

private:
    template <typename Act>
    void around_evacuated(std::uint64_t from, std::uint64_t to, const Act& act) const;
    using Copy = void* (*)(void* to, const void* from, std::size_t size);
    void* copy_of(Range range, Copy how) const;
    bool move_in(void* copy, Range range) const;
    bool show(Range range) const;
    void hide(Range range) const;

    os::GuardedDescriptor file_;
    std::uint64_t shown_ = 0;                           ///< of the lane
    std::map<std::uint64_t, std::uint64_t> evacuated_;  ///< offset and size
    std::vector<std::pair<Range, void*>> for_child_;    ///< copies of parts of the lane, around fork()
};

}  // namespace salus::device
