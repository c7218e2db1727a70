#include "os/descriptor.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/text.h"

namespace salus::os {

void Descriptor::reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

std::vector<int> open_descriptors() {
    std::vector<int> found;
    std::error_code no_proc;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", no_proc))
        if (const auto number = parse_integer(entry.path().filename().string())) found.push_back(static_cast<int>(*number));
    return found;
}

}  // namespace salus::os
