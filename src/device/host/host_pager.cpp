#include "device/host/host_pager.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "device/host/write_guard.h"
#include "device/page_places.h"
#include "os/file.h"
#include "os/guarded_descriptor.h"
#include "os/thread.h"

namespace salus::device {
namespace {

/// Threads beside the one that waits in begin() and the helper. They may be idle workers (of OpenMP or BLAS), or threads of
/// a library that write to the memory at any time: there is no way to tell.
bool has_other_threads() {
    constexpr std::size_t kWaitsAndHelper = 2;
    const auto threads = os::count_threads();
    return !threads || *threads > kWaitsAndHelper;
}

// Note [Paged memory can be touched]
// Paged-out memory stays mapped, privately, to the file that holds it. Another thread of the job, the kernel on its behalf,
// or a child process may touch it and finds the old content. A page that is written to becomes the process's own, and paging
// in keeps it. Only a write during the page-out would be lost. A client is paged while it waits in begin(), or by request
// while it idles; a thread that still writes is held until the page-out is done (WriteGuard). Where the kernel does not
// allow that, a process with other threads is not paged, nor one that idles. It does not allow it for memory that was out
// before, because that is still mapped to the file.
//
// A part that is freed and allocated again during or after its page-out maps the file until its new owner writes to it. Its
// content before that belongs to nobody, so it does not matter if the file changes.
class HostPager : public Pager {
public:
    bool page_out(const std::vector<Part>& parts) override { return page_out(parts, /*idle=*/false); }
    bool page_out_idle(const std::vector<Part>& parts) override { return page_out(parts, /*idle=*/true); }
    bool may_go_idle() const override { return true; }

    bool page_out(const std::vector<Part>& parts, bool idle) {
        if (!paged_.empty() && !page_in()) return false;
        if (!file_ || file_.lost()) file_ = os::GuardedDescriptor(open_page_file());
        const int file = file_.get();
        if (file < 0) return false;
        const WriteGuard guard(parts);
        if (!guard.holds() && (idle || has_other_threads())) return false;
        std::vector<Paged> written;
        // Everything is in the file before the first page is dropped.
        if (write(file, parts, written) && map(file, written)) return true;
        for (const Paged& part : written) give_back_file(part);
        return false;
    }

    bool page_in() override {
        for (const Paged& part : paged_) {
            if (!populate(part)) return false;
        }
        for (const Paged& part : paged_) give_back_file(part);
        paged_.clear();
        if (inherited_by_a_child_) file_.reset();
        inherited_by_a_child_ = false;
        return true;
    }

    void forget(const std::byte* start) override {
        std::erase_if(paged_, [&](const Paged& part) { return part.at == start; });
    }

    void after_fork_in_parent() override { inherited_by_a_child_ = !paged_.empty(); }
    void after_fork_in_child() override { file_.reset(); }

private:
    struct Paged {
        std::byte* at;
        std::uint64_t size;
        std::int64_t position;  ///< in the file
    };

    static bool write(int file, const std::vector<Part>& parts, std::vector<Paged>& written) {
        written.reserve(parts.size());
        std::int64_t position = 0;
        for (const Part& part : parts) {
            if (!os::write_all_at(file, {part.at, part.size}, position)) return false;
            written.push_back({part.at, part.size, position});
            position += static_cast<std::int64_t>(part.size);
        }
        return true;
    }

    /// All parts or none: if the kernel has no mapping left, the parts that are out come back. If even that fails, they stay
    /// out and readable; the result is true, because their place in the file must be kept.
    bool map(int file, const std::vector<Paged>& written) {
        for (const Paged& part : written) {
            if (::mmap(part.at, part.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, part.position) ==
                MAP_FAILED) {
                return !page_in();
            }
            paged_.push_back(part);
        }
        return true;
    }

    /// Makes every page the process's own, with the file's content unless it was written to meanwhile.
    static bool populate(const Paged& part) {
        if (::madvise(part.at, part.size, MADV_POPULATE_WRITE) == 0) return true;
        if (errno != EINVAL) return false;
        for (std::uint64_t at = 0; at < part.size; at += 4096) {  // before Linux 5.14
            std::atomic_ref(*reinterpret_cast<std::uint32_t*>(part.at + at)).fetch_or(0);
        }
        return true;
    }

    void give_back_file(const Paged& part) const {
        const int file = inherited_by_a_child_ ? -1 : file_.get();
        if (file < 0) return;
        // Not ftruncate(): that would also discard the process's own copies of the pages.
        ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part.position, static_cast<off_t>(part.size));
    }

    os::GuardedDescriptor file_;  ///< holds what is paged out
    std::vector<Paged> paged_;
    bool inherited_by_a_child_ = false;  ///< a child reads from the file, too: its content must stay
};

}  // namespace

std::unique_ptr<Pager> make_host_pager() { return std::make_unique<HostPager>(); }

}  // namespace salus::device
