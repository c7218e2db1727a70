// Redirects the calls that a loaded library makes to another one's functions.
//
// Note [Slots, not LD_PRELOAD]
// A shared library calls functions of others through slots that the dynamic linker fills in. To change those of one library,
// once it is loaded, touches neither the rest of the process nor any other process of the job; it needs no environment that
// a shell, a sanitizer or another preloaded allocator would have to cope with; and what was in the slot before is what is
// called for everything that is not ours.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace salus::interpose {

struct Redirection {
    const char* function;
    void* to;
    void** before;  ///< where to put what was called so far
};

/// An error if any of them is not called at all. Changes the first loaded library whose file name starts with `library`.
Result<bool> redirect(std::string_view library, const std::vector<Redirection>& redirections);

}  // namespace salus::interpose
