#include "os/guarded_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace salus::os {
namespace {

/// Our numbers begin here: below 1024, the limit of select() and the usual ulimit.
int out_of_reach() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    constexpr rlim_t kOurs = 64;
    const rlim_t end = std::min<rlim_t>(limit.rlim_cur, 1024);
    return end > 2 * kOurs ? static_cast<int>(end - kOurs) : 0;
}

}  // namespace

GuardedDescriptor::GuardedDescriptor(Descriptor descriptor) {
    if (!descriptor) return;
    const int from = out_of_reach();
    const int moved = from > 0 ? ::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, from) : -1;
    fd_ = moved >= 0 ? moved : descriptor.release();
    struct stat status {};
    if (::fstat(fd_, &status) != 0) return;  // then it never counts as ours
    device_ = status.st_dev;
    inode_ = status.st_ino;
}

GuardedDescriptor::GuardedDescriptor(GuardedDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), device_(other.device_), inode_(other.inode_) {}

GuardedDescriptor& GuardedDescriptor::operator=(GuardedDescriptor&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = std::exchange(other.fd_, -1);
        device_ = other.device_;
        inode_ = other.inode_;
    }
    return *this;
}

int GuardedDescriptor::get() const {
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) return -1;
    return status.st_dev == device_ && status.st_ino == inode_ ? fd_ : -1;
}

void GuardedDescriptor::reset() {
    if (const int ours = get(); ours >= 0) ::close(ours);
    fd_ = -1;
}

}  // namespace salus::os
