// Holds threads that write to some memory of this process, for as long as the guard lives.
//
// It uses userfaultfd(2): a thread that writes to a page waits in the kernel until the guard is gone, and then writes to
// whatever is mapped there by then. Reads are not held. Not every kernel allows this to every user: see holds().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "os/descriptor.h"

namespace salus::device {

class WriteGuard {
public:
    /// REQUIRES: whole pages, mapped as anonymous memory or from a memfd.
    explicit WriteGuard(const std::vector<Part>& parts);
    ~WriteGuard();
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

    /// False: no thread is held, because the kernel does not offer it, or not to us.
    bool holds() const { return static_cast<bool>(faults_); }

private:
    bool protect(const Part& part) const;

    os::Descriptor faults_;
    std::vector<Part> parts_;
};

}  // namespace salus::device
