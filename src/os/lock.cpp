#include "os/lock.h"

#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "os/clock.h"
#include "os/file.h"

namespace salus::os {

Result<Descriptor> open_lock(const std::string& path) {
    Descriptor lock = open_file(path, Open::kReadWrite);
    if (!lock) return Error{path + ": " + std::strerror(errno)};
    return lock;
}

bool take_lock(int file, Duration patience, const std::function<bool()>& holder_is_alive) {
    const Instant until = now() + patience;
    while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return true;  // a file system without locks
        if (now() >= until || holder_is_alive()) return false;
        sleep_for(milliseconds(10));
    }
    return true;
}

}  // namespace salus::os
