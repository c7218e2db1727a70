// The real driver, and which of the shim's functions stands for which of its.
#pragma once

#include <atomic>

#include "shim/functions.h"

namespace salus::shim {

enum class Function : unsigned {
#define SALUS_SHIM_NAME(symbol, ...) symbol,
    SALUS_SHIM_LAUNCHES(SALUS_SHIM_NAME) SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_NAME) SALUS_SHIM_FREES(SALUS_SHIM_NAME)
        SALUS_SHIM_EXCHANGES(SALUS_SHIM_NAME) SALUS_SHIM_OTHERS(SALUS_SHIM_NAME)
#undef SALUS_SHIM_NAME
            kCount
};

/// The real function; nullptr if this driver has none, or there is no driver. Loads the driver if the program has not.
void* real(Function function);
/// ... by its symbol, whether the shim stands before it or not.
void* real(const char* symbol);

/// What a program that was about to get `found` gets instead: the shim's function if it stands before that one, else
/// `found`.
void* instead_of(void* found);

}  // namespace salus::shim
