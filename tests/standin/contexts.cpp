// Contexts: the primary ones of the devices, and which a thread has current.
#include <algorithm>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

/// Nothing to destroy: exit handlers may still call the driver.
thread_local DeviceContext* current_of_thread = nullptr;

/// The context that a handle means; nothing if it means none, or one that is no longer alive.
DeviceContext* alive(Context handle) {
    for (auto* contexts : {&state.primary_contexts, &state.other_contexts}) {
        for (DeviceContext& context : *contexts) {
            if (&context == handle && context.is_alive()) return &context;
        }
    }
    return nullptr;
}

bool bring_up(DeviceContext& context) {
    context.row = charge({context.device, 0, context_cost(), true});
    return context.is_alive();
}

}  // namespace

DeviceContext* current() { return current_of_thread; }

Status retain_primary_context(Context* context, Ordinal device) {
    SALUS_STANDIN_ENTER(retain_primary_context, kInitialised);
    DeviceContext* const primary = context_of(device);
    if (!primary) return kInvalidDevice;
    if (!primary->is_alive() && !bring_up(*primary)) return kOutOfMemory;
    ++primary->retained;
    *context = primary;
    return kSuccess;
}

Status get_current(Context* context) {
    SALUS_STANDIN_ENTER(get_current, kInitialised);
    *context = current();
    return kSuccess;
}

Status set_current(Context context) {
    SALUS_STANDIN_ENTER(set_current, kInitialised);
    DeviceContext* const found = alive(context);
    if (context && !found) return kInvalidContext;
    current_of_thread = found;
    return kSuccess;
}

Status context_synchronize() {
    SALUS_STANDIN_ENTER(context_synchronize, kContext);
    return synchronize(entered, *current());
}

}  // namespace salus::standin
