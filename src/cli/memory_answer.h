// What the service says of a job's memory when it is suspended or paged out, and how people are told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace salus::cli {

/// The answer to wire::SuspendJob and wire::PageIdleJob.
struct MemoryAnswer {
    std::uint32_t job = 0;
    std::string name;
    std::uint64_t clients = 0;  ///< attached; of PageIdleJob, those that idle
    Bytes goes, stays;          ///< of what is on the device
    std::string stays_because;
};
/// A missing or unexpected field keeps its default: the service may be a little older or newer.
MemoryAnswer memory_answer_from(std::string_view text);

/// As text that follows the job's name.
std::string suspended_text(const MemoryAnswer& answer);
/// `out`: bytes that are on the host by now; `moves`: others are on their way.
std::string idle_text(const MemoryAnswer& answer, Bytes out, bool moves);

}  // namespace salus::cli
