// CUDA_VISIBLE_DEVICES of a job, as a service can read it.
#pragma once

#include <string>

namespace salus::device {

/// The same GPUs by their UUIDs, as far as they have numbers here: those may mean others to a service outside of this
/// container. Without control characters, and no longer than a message can carry.
std::string gpus_by_uuid(const std::string& visible);

/// Whether a process that is told this list sees the GPUs that we take it for. Numbers here are in the order of the PCI bus;
/// CUDA counts the fastest GPU first, unless CUDA_DEVICE_ORDER says otherwise or all are of one model.
bool is_read_by_cuda_alike(const std::string& visible);

}  // namespace salus::device
