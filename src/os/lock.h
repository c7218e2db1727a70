// Locks between processes, released when their holder ends.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"

namespace salus::os {

/// A file to lock: created if missing, not accessible to other users.
Result<Descriptor> open_lock(const std::string& path);

/// Takes the lock on an open file or directory, until its descriptor is closed. False: another process holds it. The lock of
/// a killed holder may last for a moment, so this retries until patience ends or `holder_is_alive` says so. On a file system
/// without locks, everybody gets the lock.
bool take_lock(
    int file, Duration patience, const std::function<bool()>& holder_is_alive = [] { return false; });

}  // namespace salus::os
