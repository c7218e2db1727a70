#include "device/host/write_guard.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace salus::device {

WriteGuard::WriteGuard(const std::vector<Part>& parts) : parts_(parts) {
    // Not UFFD_USER_MODE_ONLY: then a read(2) into the memory would fail instead of waiting.
    faults_ = os::Descriptor(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
    if (!faults_) return;
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
    const bool ok = ::ioctl(faults_.get(), UFFDIO_API, &api) == 0 &&
                    std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) { return protect(part); });
    if (!ok) faults_.reset();
}

// Closing it releases all threads, and lifts the protection of pages that are still mapped.
WriteGuard::~WriteGuard() = default;

bool WriteGuard::protect(const Part& part) const {
    // Pages that are not present yet cannot be protected.
    if (::madvise(part.at, part.size, MADV_POPULATE_READ) != 0) return false;
    uffdio_register registration{};
    registration.range = {reinterpret_cast<std::uintptr_t>(part.at), part.size};
    registration.mode = UFFDIO_REGISTER_MODE_WP;
    if (::ioctl(faults_.get(), UFFDIO_REGISTER, &registration) != 0) return false;
    uffdio_writeprotect protection{};
    protection.range = registration.range;
    protection.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    return ::ioctl(faults_.get(), UFFDIO_WRITEPROTECT, &protection) == 0;
}

}  // namespace salus::device
