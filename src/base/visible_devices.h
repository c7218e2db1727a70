// CUDA_VISIBLE_DEVICES, as the CUDA driver reads it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace salus {

/// Of a MIG instance: only its UUID names it.
inline constexpr unsigned kNoNumber = ~0u;

/// How a GPU, or a MIG instance of one, can be named.
struct DeviceNames {
    unsigned number = 0;  ///< in the order of the PCI bus, from 0; kNoNumber: none
    std::string uuid;     ///< "GPU-…" or "MIG-…"
};

/// The devices of `all` that this list leaves, as their positions there, in the list's order. Entries are numbers, UUIDs, or
/// beginnings of UUIDs that no other device has. As for CUDA, the list ends at its first entry that is none of these, and
/// names nothing if it names a device twice.
std::vector<std::size_t> devices_in(std::string_view list, std::span<const DeviceNames> all);

/// The first entry that names no device, or several; empty: all name one.
std::string first_unknown_in(std::string_view list, std::span<const DeviceNames> all);

}  // namespace salus
