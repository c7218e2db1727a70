#include "device/host/host_pager.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "device/host/write_guard.h"
#include "os/file.h"
#include "os/guarded_descriptor.h"
#include "os/thread.h"

namespace salus::device {
namespace {

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
//
// A part that is freed and allocated anew while it goes out, or is out, is the file's until its new owner writes to it. What
// it holds before that is nobody's, and so it does not matter that the file may change.
class HostPager : public Pager {
public:
    bool page_out(const std::vector<Part>& parts) override {
        if (!paged_.empty() && !page_in()) return false;
        if (!file_ || file_.lost()) file_ = os::GuardedDescriptor(open_page_file());
        const int file = file_.get();
        if (file < 0) return false;
        const WriteGuard guard(parts);
        if (!guard.holds() && has_other_threads()) return false;
        std::vector<Paged> written;
        // All is safe on disk before the first page is dropped.
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

    /// All of them, or none: where the kernel has no mapping left, those that have gone come back. If even that fails they
    /// stay out, and stay readable: true, since their place in the file must be kept.
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

    /// Every page becomes the process's own, with what is in the file unless it was written to meanwhile.
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
        // Not ftruncate(): that would take the process's own copies of the pages as well.
        ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part.position, static_cast<off_t>(part.size));
    }

    os::GuardedDescriptor file_;  ///< holds what is paged out
    std::vector<Paged> paged_;
    bool inherited_by_a_child_ = false;  ///< it reads from the file, too: its content must stay
};

}  // namespace

std::unique_ptr<Pager> make_host_pager() { return std::make_unique<HostPager>(); }

}  // namespace salus::device
