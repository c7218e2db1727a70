// A descriptor of ours inside somebody else's process.
//
// The process may close every descriptor it finds, as daemons do, and the number then comes to mean a file of its own. So a
// guarded descriptor lies above the numbers that such loops usually reach, remembers which file it is, and is looked at
// before each use: it is never used, and never closed, once its number means something else.
#pragma once

#include <sys/types.h>

#include "os/descriptor.h"

namespace salus::os {

class GuardedDescriptor {
public:
    GuardedDescriptor() = default;
    /// REQUIRES: of its own inode (a file, memfd or socket; all eventfds share one).
    explicit GuardedDescriptor(Descriptor descriptor);
    GuardedDescriptor(GuardedDescriptor&& other) noexcept;
    GuardedDescriptor& operator=(GuardedDescriptor&& other) noexcept;
    ~GuardedDescriptor() { reset(); }

    /// The number; -1 if there is none, or if it no longer means our file. Costs a system call.
    int get() const;
    /// There was one, and it is no longer ours.
    bool lost() const { return fd_ >= 0 && get() < 0; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset();

private:
    int fd_ = -1;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

}  // namespace salus::os
