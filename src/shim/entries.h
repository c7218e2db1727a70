// The shim's functions, under the names of the driver's: what a program that links libcuda is bound to.
#pragma once

#include "shim/functions.h"

extern "C" {
using namespace salus::shim;  // NOLINT: the types of their parameters

#define SALUS_SHIM_DECLARE_3(symbol, parameters, arguments) Status symbol parameters;
#define SALUS_SHIM_DECLARE_4(symbol, a, parameters, arguments) Status symbol parameters;
#define SALUS_SHIM_DECLARE_5(symbol, a, b, parameters, arguments) Status symbol parameters;
SALUS_SHIM_LAUNCHES(SALUS_SHIM_DECLARE_4)
SALUS_SHIM_ALLOCATIONS(SALUS_SHIM_DECLARE_5)
SALUS_SHIM_FREES(SALUS_SHIM_DECLARE_4)
SALUS_SHIM_EXCHANGES(SALUS_SHIM_DECLARE_3)
SALUS_SHIM_OTHERS(SALUS_SHIM_DECLARE_3)
#undef SALUS_SHIM_DECLARE_3
#undef SALUS_SHIM_DECLARE_4
#undef SALUS_SHIM_DECLARE_5
}
