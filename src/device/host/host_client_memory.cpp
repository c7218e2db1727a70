#include "device/host/host_client_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "device/host/write_guard.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/guarded_descriptor.h"
#include "os/thread.h"

namespace salus::device {
namespace {

std::byte* reserve(std::uint64_t size, int protection) {
    void* start = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
}

/// Nameless, so that nothing is left behind however the process ends.
os::Descriptor open_page_file() {
    const char* named = std::getenv("SALUS_PAGE_DIR");
    for (const char* directory : {named, "/var/tmp", "/tmp"}) {
        if (!directory || !*directory) continue;
        os::Descriptor file(::open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (file || directory == named) return file;
    }
    return {};
}

/// Threads beside the one that waits in begin() and the helper. They may be workers that do nothing by themselves (OpenMP's,
/// BLAS's), or a library's that writes to the memory at any time: nobody can tell.
bool has_other_threads() {
    constexpr std::size_t kWaitsAndHelper = 2;
    const auto threads = os::count_threads();
    return !threads || *threads > kWaitsAndHelper;
}

// Note [Paged memory can be touched]
// What is paged out stays mapped, privately, to the file that holds it. Whoever touches it, be it another thread of the job,
// the kernel on its behalf, or a child process, finds what was there; a page that is written to becomes the process's own,
// and paging in keeps it. Only writing while the bytes go out would be lost. A client is paged only while it waits in
// begin(), and a native thread that writes all the same is held up until they are out (WriteGuard); where the kernel does
// not let us do that, a process with other threads is not paged.
class HostClientMemory : public ClientMemory {
public:
    HostClientMemory(std::byte* lane, std::byte* own, std::uint64_t size, bool asynchronous)
        : lane_(lane), own_(own), size_(size), asynchronous_(asynchronous) {
        // A child of fork() is no client and must not see a lane.
        ::madvise(lane_, size_, MADV_DONTFORK);
    }
    ~HostClientMemory() override {
        ::munmap(lane_, size_);
        ::munmap(own_, size_);
    }
    HostClientMemory(const HostClientMemory&) = delete;
    HostClientMemory& operator=(const HostClientMemory&) = delete;

    std::byte* lane_window() const override { return lane_; }
    std::byte* private_window() const override { return own_; }
    std::uint64_t window_size() const override { return size_; }

    bool add_lane_memory(std::size_t first, std::vector<os::Descriptor> pieces) override {
        if (first != 0 || pieces.size() != 1) return false;
        lane_file_ = os::GuardedDescriptor(std::move(pieces[0]));
        return true;
    }

    bool resize_lane(std::uint64_t size) override {
        if (size > size_ || (size > 0 && !lane_file_)) return false;
        bool ok = true;
        if (size > mapped_) around_evacuated(mapped_, size, [&](Range range) { ok = ok && map_lane(range); });
        else around_evacuated(size, mapped_, [&](Range range) { unmap_lane(range); });
        if (ok) mapped_ = size;
        return ok;
    }

    void drop_lane() override {
        resize_lane(0);
        lane_file_.reset();
    }

    bool make_private(Range range) override {
        const WriteGuard guard({{lane_ + range.offset, range.size}});
        void* copy = copy_of(range);
        if (!copy || !move_into_lane(copy, range)) return false;
        evacuated_[range.offset] = range.size;
        return true;
    }

    bool restore_lane(Range range) override {
        evacuated_.erase(range.offset);
        const std::uint64_t inside = mapped_ > range.offset ? std::min(range.size, mapped_ - range.offset) : 0;
        unmap_lane(range);
        return inside == 0 || map_lane({range.offset, inside});
    }

    bool back_private(Range) override { return true; }  // the kernel does, at the first touch
    void discard_private(Range range) override { ::madvise(own_ + range.offset, range.size, MADV_DONTNEED); }

    bool page_out(const std::vector<Range>& private_ranges) override {
        if (!file_ || file_.lost()) file_ = os::GuardedDescriptor(open_page_file());
        const int file = file_.get();
        if (file < 0) return false;
        std::vector<WriteGuard::Part> parts;
        for (const Range& range : private_ranges) parts.push_back({own_ + range.offset, range.size});
        for (const auto& [offset, size] : evacuated_) parts.push_back({lane_ + offset, size});
        const WriteGuard guard(parts);
        if (!guard.holds() && has_other_threads()) return false;
        std::vector<Paged> moved;
        moved.reserve(parts.size());
        std::int64_t position = 0;
        for (const WriteGuard::Part& part : parts) {
            if (!os::write_all_at(file, {part.at, part.size}, position)) break;
            moved.push_back({part.at, part.size, position});
            position += static_cast<std::int64_t>(part.size);
        }
        const bool written = moved.size() == parts.size();
        // All is safe on disk before the first page is dropped. See Note [Paged memory can be touched].
        for (const Paged& range : moved) {
            if (!written) break;
            ::mmap(range.at, range.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, range.position);
        }
        if (written) paged_ = std::move(moved);
        else
            for (const Paged& range : moved) give_back_file(range);
        return written;
    }

    bool page_in() override {
        for (const Paged& range : paged_) {
            if (!populate(range)) return false;
        }
        for (const Paged& range : paged_) give_back_file(range);
        paged_.clear();
        if (inherited_by_a_child_) file_.reset();
        inherited_by_a_child_ = false;
        return true;
    }

    void forget_paged(const std::byte* start) override {
        std::erase_if(paged_, [&](const Paged& range) { return range.at == start; });
    }

    // The parent's own blocks stay where they are, since other threads may be using them. Without memory for a copy the
    // child finds nothing there.
    void prepare_fork(const std::vector<Range>& lane_ranges) override {
        for (const Range& range : lane_ranges) {
            if (void* copy = copy_of(range)) for_child_.push_back({range, copy});
        }
    }

    void in_parent() override {
        inherited_by_a_child_ = !paged_.empty();
        for (const auto& [range, copy] : std::exchange(for_child_, {})) ::munmap(copy, range.size);
    }

    void in_child() override {
        // The lane was not inherited: its addresses are taken again, before anything of the child's own comes to lie there.
        around_evacuated(0, size_, [&](Range range) {
            ::mmap(lane_ + range.offset, range.size, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        });
        for (const auto& [range, copy] : std::exchange(for_child_, {})) move_into_lane(copy, range);
        file_.reset();
        lane_file_.reset();
    }

    // What the host computes is done when the call returns.
    bool asynchronous() const override { return asynchronous_; }
    void uses(Stream) override {}
    bool order(Stream, Stream) override { return true; }
    void fence() override {}
    bool passed() override { return true; }
    bool captures() const override { return false; }
    void drain() override {}
    void turn_begins(Stream) override {}
    bool drain_everything() override { return true; }
    std::optional<std::uint64_t> ns_lost() override { return std::nullopt; }
    int ordinal() const override { return 0; }

    std::uint64_t lane_unit() const override { return 1; }
    bool is_host() const override { return true; }
    std::uint64_t backed() const override { return 0; }  // it is what is in use

private:
    struct Paged {
        std::byte* at;
        std::uint64_t size;
        std::int64_t position;  ///< in the file
    };

    /// Calls `act` for each part of [from, to) that was not evacuated.
    template <typename Act>
    void around_evacuated(std::uint64_t from, std::uint64_t to, const Act& act) const {
        for (const auto& [offset, size] : evacuated_) {
            if (offset + size <= from || offset >= to) continue;
            if (offset > from) act(Range{from, offset - from});
            from = offset + size;
        }
        if (from < to) act(Range{from, to - from});
    }

    /// Private memory with what this part of the lane holds; nullptr if there is none.
    void* copy_of(Range range) const {
        void* copy = ::mmap(nullptr, range.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (copy == MAP_FAILED) return nullptr;
        std::memcpy(copy, lane_ + range.offset, range.size);
        return copy;
    }
    bool move_into_lane(void* copy, Range range) {
        if (::mremap(copy, range.size, range.size, MREMAP_MAYMOVE | MREMAP_FIXED, lane_ + range.offset) != MAP_FAILED)
            return true;
        ::munmap(copy, range.size);
        return false;
    }

    bool map_lane(Range range) {
        const int file = lane_file_.get();
        void* at = file < 0 ? MAP_FAILED
                            : ::mmap(lane_ + range.offset, range.size, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, static_cast<off_t>(range.offset));
        if (at == MAP_FAILED) {
            unmap_lane(range);
            return false;
        }
        ::madvise(at, range.size, MADV_DONTFORK);
        return true;
    }

    /// The range stays ours, with nothing in it.
    void unmap_lane(Range range) {
        void* at = ::mmap(lane_ + range.offset, range.size, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (at != MAP_FAILED) ::madvise(at, range.size, MADV_DONTFORK);
    }

    /// Every page becomes the process's own, with what is in the file unless it was written to meanwhile.
    static bool populate(const Paged& range) {
        if (::madvise(range.at, range.size, MADV_POPULATE_WRITE) == 0) return true;
        if (errno != EINVAL) return false;
        for (std::uint64_t at = 0; at < range.size; at += 4096) {  // before Linux 5.14
            std::atomic_ref(*reinterpret_cast<std::uint32_t*>(range.at + at)).fetch_or(0);
        }
        return true;
    }

    void give_back_file(const Paged& range) const {
        const int file = inherited_by_a_child_ ? -1 : file_.get();
        if (file < 0) return;
        // Not ftruncate(): that would take the process's own copies of the pages as well.
        ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range.position, static_cast<off_t>(range.size));
    }

    std::byte* lane_;
    std::byte* own_;
    std::uint64_t size_;
    bool asynchronous_;
    os::GuardedDescriptor lane_file_;
    std::uint64_t mapped_ = 0;                          ///< of the lane
    std::map<std::uint64_t, std::uint64_t> evacuated_;  ///< offset and size
    os::GuardedDescriptor file_;                        ///< holds what is paged out
    std::vector<Paged> paged_;
    std::vector<std::pair<Range, void*>> for_child_;  ///< copies of parts of the lane, around fork()
    bool inherited_by_a_child_ = false;               ///< it reads from the file, too: its content must stay
};

}  // namespace

Result<std::unique_ptr<ClientMemory>> make_host_client_memory(Bytes capacity) {
    // Twice the capacity: gaps between blocks cost address space only.
    const std::uint64_t size = ((static_cast<std::uint64_t>(capacity.count) >> 21) + 1) << 22;
    std::byte* lane = reserve(size, PROT_NONE);
    std::byte* own = lane ? reserve(size, PROT_READ | PROT_WRITE) : nullptr;
    if (!own) {
        if (lane) ::munmap(lane, size);
        return Error{std::string("no address space for the device's memory: ") + std::strerror(errno)};
    }
    // For tests of the helper's part in a hand-over, which an asynchronous device needs.
    const bool asynchronous = std::getenv("SALUS_HOST_ASYNCHRONOUS") != nullptr;
    return std::unique_ptr<ClientMemory>(std::make_unique<HostClientMemory>(lane, own, size, asynchronous));
}

}  // namespace salus::device
