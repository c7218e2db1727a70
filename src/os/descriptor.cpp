#include "os/descriptor.h"

#include <unistd.h>

namespace salus::os {

void Descriptor::reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

}  // namespace salus::os
