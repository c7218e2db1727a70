// Contexts: the primary ones of the devices, and which a thread has current.
#include <algorithm>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

/// A thread's contexts, the current one last. Nothing to destroy: exit handlers may still call the driver.
struct Stack {
    DeviceContext* contexts[64];
    std::size_t size;

    bool push(DeviceContext* context) {
        if (size == std::size(contexts)) return false;
        contexts[size++] = context;
        return true;
    }
    void pop() { size -= size > 0; }
};
thread_local Stack stack_of_thread = {};

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

/// With everything that was made in it.
Status end(Entered& entered, DeviceContext& context) {
    SALUS_STANDIN_TRY(drain(entered, context));
    reenter(entered);  // nobody is in a call, then, that uses its queues
    if (!context.is_alive()) return kContextIsDestroyed;
    if (context.retained > 0) return kSuccess;  // anew, meanwhile
    const auto is_its = [&](const auto& item) { return item.second.context == &context; };
    for (auto& [stream, queue] : state.queues) {
        if (queue.context != &context) continue;
        if (queue.capture) finish_capture(std::shared_ptr(queue.capture));
        queue.is_destroyed = true;
    }
    std::erase_if(state.events, is_its);
    std::erase_if(state.graphs, is_its);
    std::erase_if(state.runnable_graphs, is_its);
    std::erase_if(state.kernels, [&](const auto& kernel) { return state.modules.at(kernel.second).context == &context; });
    std::erase_if(state.modules, is_its);
    std::erase_if(state.registered, is_its);
    std::vector<Address> blocks;
    for (const auto& [start, mapping] : state.mappings) {
        if (mapping.owner == &context) blocks.push_back(start);
    }
    for (const Address start : blocks) free_block(start);
    drop(*context.row);
    context.row.reset();
    state.changed.notify_all();
    return kSuccess;
}

Status create(Context* context, Ordinal device) {
    SALUS_STANDIN_REQUIRE(context);
    if (!context_of(device)) return kInvalidDevice;
    DeviceContext made{context_of(device)->device};
    if (!bring_up(made)) return kOutOfMemory;
    const auto gone = std::find_if(state.other_contexts.begin(), state.other_contexts.end(),
                                   [](const DeviceContext& other) { return reuses_handles() && !other.is_alive(); });
    DeviceContext& place = gone == state.other_contexts.end() ? state.other_contexts.emplace_back(made) : * gone = made;
    *context = &place;
    return stack_of_thread.push(&place) ? kSuccess : kOutOfMemory;
}

}  // namespace

DeviceContext* current() { return stack_of_thread.size ? stack_of_thread.contexts[stack_of_thread.size - 1] : nullptr; }

Status retain_primary_context(Context* context, Ordinal device) {
    SALUS_STANDIN_ENTER(retain_primary_context, kInitialised);
    DeviceContext* const primary = context_of(device);
    if (!primary) return kInvalidDevice;
    if (is_lost(primary->device)) return kUnknown;
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
    stack_of_thread.pop();
    if (found) stack_of_thread.push(found);
    return kSuccess;
}

/// The number that the context's device has in this process.
Status context_device(Ordinal* device) {
    SALUS_STANDIN_ENTER(context_device, kContext);
    for (Ordinal i = 0; context_of(i); ++i) {
        if (context_of(i)->device == current()->device) return *device = i, kSuccess;
    }
    return kInvalidDevice;
}

Status context_synchronize() {
    SALUS_STANDIN_ENTER(context_synchronize, kContext);
    return synchronize(entered, *current());
}

Status context_synchronize_v2(Context context) {
    SALUS_STANDIN_ENTER(context_synchronize_v2, kInitialised);
    DeviceContext* const found = context ? alive(context) : current();
    if (!found) return kInvalidContext;
    return synchronize(entered, *found);
}

Status primary_context_state(Ordinal device, unsigned* flags, int* active) {
    SALUS_STANDIN_ENTER(primary_context_state, kInitialised);
    SALUS_STANDIN_REQUIRE(flags && active);
    if (!context_of(device)) return kInvalidDevice;
    *flags = 0;
    *active = context_of(device)->is_alive();
    return kSuccess;
}

Status primary_context_release(Ordinal device) {
    SALUS_STANDIN_ENTER(primary_context_release, kInitialised);
    DeviceContext* const primary = context_of(device);
    if (!primary) return kInvalidDevice;
    if (primary->retained == 0) return kInvalidContext;
    return --primary->retained == 0 ? end(entered, *primary) : kSuccess;
}

Status context_create(Context* context, unsigned, Ordinal device) {
    SALUS_STANDIN_ENTER(context_create, kInitialised);
    return create(context, device);
}
Status context_create_v1(Context* context, unsigned, Ordinal device) {
    SALUS_STANDIN_ENTER(context_create_v1, kInitialised);
    return create(context, device);
}
Status context_create_v3(Context* context, void*, int, unsigned, Ordinal device) {
    SALUS_STANDIN_ENTER(context_create_v3, kInitialised);
    return create(context, device);
}
Status context_create_v4(Context* context, void*, unsigned, Ordinal device) {
    SALUS_STANDIN_ENTER(context_create_v4, kInitialised);
    return create(context, device);
}

Status context_destroy(Context context) {
    SALUS_STANDIN_ENTER(context_destroy, kInitialised);
    SALUS_STANDIN_REQUIRE(context);
    DeviceContext* const found = alive(context);
    if (!found || found->retained > 0) return kInvalidContext;
    SALUS_STANDIN_TRY(end(entered, *found));
    if (current() == found) stack_of_thread.pop();
    let_others_reuse(entered);
    return kSuccess;
}

Status context_push(Context context) {
    SALUS_STANDIN_ENTER(context_push, kInitialised);
    SALUS_STANDIN_REQUIRE(context);
    DeviceContext* const found = alive(context);
    if (!found) return kInvalidContext;
    return stack_of_thread.push(found) ? kSuccess : kOutOfMemory;
}

Status context_pop(Context* context) {
    SALUS_STANDIN_ENTER(context_pop, kInitialised);
    if (!current()) return kInvalidContext;
    if (context) *context = current();
    stack_of_thread.pop();
    return kSuccess;
}

}  // namespace salus::standin
