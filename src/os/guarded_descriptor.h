// A descriptor of ours inside somebody else's process.
//
// The process may close every descriptor it finds, as daemons do. The number may then be reused for a file of the process.
// So a guarded descriptor lies above the numbers that such loops usually reach, remembers its inode, and is checked before
// each use. Once its number means another file, it is neither used nor closed.
#pragma once

#include <sys/types.h>

#include "os/descriptor.h"

namespace salus::os {

class GuardedDescriptor {
public:
    GuardedDescriptor() = default;
    /// REQUIRES: the file has an inode of its own (a file, memfd or socket; all eventfds share one).
    explicit GuardedDescriptor(Descriptor descriptor);
    GuardedDescriptor(GuardedDescriptor&& other) noexcept;
    GuardedDescriptor& operator=(GuardedDescriptor&& other) noexcept;
    ~GuardedDescriptor() { reset(); }

    /// The number; -1 if there is none, or if it no longer means our file. Costs a system call.
    int get() const;
    /// There was a descriptor, and its number no longer means our file.
    bool lost() const { return fd_ >= 0 && get() < 0; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset();

private:
    int fd_ = -1;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

}  // namespace salus::os
