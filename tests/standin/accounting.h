// What every process holds on the stand-in GPUs, in a file that they share (SALUS_STANDIN_STATE); without one, what this
// process holds. The settings of the stand-in, too, as both of its libraries read them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace salus::standin {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGranularity = 2 * kMiB;

int device_count();  ///< SALUS_STANDIN_DEVICES, or 1
/// SALUS_STANDIN_MEMORY, or 1 GiB: one number for all devices, or "n,n,…" with one for each.
std::uint64_t total_memory(int device);
std::uint64_t context_cost();  ///< SALUS_STANDIN_CONTEXT, or 64 MiB
std::array<unsigned char, 16> uuid_of(int device);
std::string uuid_text(int device);  ///< "GPU-…"
/// A GPU that has fallen off the bus: its calls fail from now on. By the file SALUS_STANDIN_STATE.lost-N.
bool is_lost(int device);

/// Who holds what: a row of the table. An allocation is charged once, however many hold it.
struct Holding {
    int device;
    std::uint64_t allocation;  ///< the inode of its memory; 0: a context
    std::uint64_t size;
    bool created;  ///< by this process, not imported
};
using Row = std::size_t;

/// Forgets what the program held that this process was before exec.
void start();
/// Nothing if it does not fit; what is imported does, it is there already.
std::optional<Row> charge(const Holding& holding);
void drop(Row row);

struct Usage {
    std::uint64_t used = 0;
    std::map<int, std::uint64_t> by_process;  ///< only those with a context
};
Usage usage(int device);

}  // namespace salus::standin
