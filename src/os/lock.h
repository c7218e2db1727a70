// Locks that other processes see, and that end with their holder.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"

namespace salus::os {

/// A file to lock: made if need be, closed to others.
Result<Descriptor> open_lock(const std::string& path);

/// Holds the lock on an open file or directory until its descriptor is closed. False: another process holds it. A killed
/// holder's lock may last for a moment, so it is tried again until patience ends, or `holder_is_alive`. Where the file
/// system has no locks, everybody gets it.
bool take_lock(
    int file, Duration patience, const std::function<bool()>& holder_is_alive = [] { return false; });

}  // namespace salus::os
