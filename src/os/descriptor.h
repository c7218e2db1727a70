#pragma once

#include <utility>
#include <vector>

namespace salus::os {

/// A file descriptor that closes itself.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset();
    /// The caller closes it.
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

/// What this process has open, and the descriptor that is needed to list it.
std::vector<int> open_descriptors();

}  // namespace salus::os
