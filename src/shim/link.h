// Between the shim (libsalus-cuda.so, preloaded) and the client library (libsalus.so), which the shim loads once the process
// uses the GPU. Plain C types: the two are built apart, and compare kLinkVersion first. The client library's own calls of
// the driver must not be served by the shim; it finds the real functions through the shim's salus_shim_real (driver.cpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace salus::shim {

inline constexpr std::uint32_t kLinkVersion = 4;

/// What the client library offers. No function ends the process or throws. All may be called by any thread.
struct ClientSide {
    /// Before the driver starts, in a process that nobody has announced: makes it a job, and waits until there is room.
    void (*starts)() = nullptr;
    /// This thread is about to launch work on this stream: waits for the process's turn, if the process takes turns by
    /// launches. Then launch_ends must follow.
    void (*launch_begins)(void* stream) = nullptr;
    /// While it is 0, launches need not be told: nobody waits, counts or puts gates.
    const std::atomic<std::uint32_t>* launches_wanted = nullptr;
    void (*launch_ends)() = nullptr;
    /// This stream is about to be destroyed.
    void (*stream_ends)(void* stream) = nullptr;

    /// Before an allocation: sets the bytes aside. False: the job may not have so many. Then allocated() must follow, or
    /// not_allocated() if the driver has refused.
    bool (*may_allocate)(std::uint64_t bytes) = nullptr;
    void (*allocated)(std::uint64_t name, std::uint64_t bytes) = nullptr;
    void (*not_allocated)(std::uint64_t bytes) = nullptr;
    /// Before memory is freed; afterwards its name may be another's already. Returns how much that frees, 0 if it is not
    /// known.
    std::uint64_t (*freeing)(std::uint64_t name) = nullptr;
    /// ... if the driver has refused.
    void (*not_freed)(std::uint64_t name, std::uint64_t bytes) = nullptr;
    /// Memory that was made by cuMemCreate is used until it is freed, which is to say released, and mapped nowhere.
    void (*mapped)(std::uint64_t address, std::uint64_t handle) = nullptr;
    void (*unmapped)(std::uint64_t address, std::uint64_t bytes) = nullptr;
    /// Before a context is destroyed; afterwards its name may be another's already. Returns a number for one of
    /// these: context_ended() when all its memory is gone, or context_stays() if the driver has refused.
    std::uint64_t (*context_ends)(void* context) = nullptr;
    void (*context_ended)(std::uint64_t ending) = nullptr;
    void (*context_stays)(std::uint64_t ending) = nullptr;
    /// Changes what the driver says to what the job may have.
    void (*memory_info)(std::uint64_t* free, std::uint64_t* total) = nullptr;
    /// The process shares memory or events with others: they may wait for each other on the device.
    void (*exchanges)() = nullptr;
};

/// The function of the client library that makes the link, given the shim's kLinkVersion. nullptr: it is of another one.
inline constexpr const char* kLinkFunction = "salus_shim_link";
using LinkFunction = const ClientSide* (*)(std::uint32_t version);

}  // namespace salus::shim
