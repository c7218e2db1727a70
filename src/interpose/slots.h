// Redirects the calls of a loaded library to functions of other libraries.
//
// Note [Slots, not LD_PRELOAD]
// A shared library calls functions of other libraries through slots that the dynamic linker fills in. We patch the slots of
// one library after it is loaded. This touches neither the rest of the process nor any other process of the job. It needs no
// environment variable, which could disturb a shell, a sanitizer or another preloaded allocator. For everything that is not
// ours, we call the previous content of the slot.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace salus::interpose {

struct Redirection {
    const char* function;
    void* to;
    void** before;  ///< receives the function that was called before
};

/// Patches the first loaded library whose file name starts with `library`. An error if it does not call one of the
/// functions.
Result<bool> redirect(std::string_view library, const std::vector<Redirection>& redirections);

}  // namespace salus::interpose
