// Counts launches as CUPTI sees them. scripts/test-gpu compares the counts with those of the shim: a difference is a way
// into the driver that passes by the shim.
//
// libcuda loads this library in cuInit (CUDA_INJECTION64_PATH names it). At the end of the process a line goes to the file
// that COUNT_LAUNCHES_REPORT names, in the form of SALUS_SHIM_REPORT (src/shim/shim.cpp).
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "shim/functions.h"

namespace {

std::atomic<std::uint64_t> kernels{0};
std::atomic<std::uint64_t> graphs{0};
std::atomic<CUptiResult> result{CUPTI_SUCCESS};

/// The shim counts a launch before it passes it on, so it is the beginning that counts here, too.
void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
    if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_ENTER) return;
    const bool is_graph = id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
    (is_graph ? graphs : kernels).fetch_add(1, std::memory_order_relaxed);
}

void subscribe_to(CUpti_SubscriberHandle subscriber, CUpti_CallbackId id) {
    const CUptiResult enabled = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    if (enabled != CUPTI_SUCCESS) result.store(enabled);
}

/// In a destructor, which runs after those of objects: what they launch is counted.
__attribute__((destructor)) void report() {
    const char* const path = ::getenv("COUNT_LAUNCHES_REPORT");
    const bool failed = result.load() != CUPTI_SUCCESS;
    if (!path || (!failed && kernels.load() + graphs.load() == 0)) return;
    FILE* const file = ::fopen(path, "a");
    if (!file) return;
    const char* why = "unknown error";
    if (failed) {
        cuptiGetResultString(result.load(), &why);
        ::fprintf(file, "pid %d not counted: %s\n", static_cast<int>(::getpid()), why);
    } else {
        ::fprintf(file, "pid %d kernels %llu graphs %llu\n", static_cast<int>(::getpid()),
                  static_cast<unsigned long long>(kernels.load()), static_cast<unsigned long long>(graphs.load()));
    }
    ::fclose(file);
}

}  // namespace

/// libcuda calls it; not 0 is success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    CUpti_SubscriberHandle subscriber = nullptr;
    result.store(cuptiSubscribe(&subscriber, &called, nullptr));
    if (result.load() != CUPTI_SUCCESS) return 1;
#define SUBSCRIBE(symbol, stream, parameters, arguments) subscribe_to(subscriber, CUPTI_DRIVER_TRACE_CBID_##symbol);
    SALUS_SHIM_LAUNCHES(SUBSCRIBE)
#undef SUBSCRIBE
    return 1;
}
