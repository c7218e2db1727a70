// The parts of a client's side of a GPU.
#pragma once

#include <memory>

#include "device/cuda/context_scope.h"
#include "device/device.h"

namespace salus::device {

/// REQUIRES: the space is a piece (cuda::kPieceMax) larger than the window: evacuated pieces are copied through it.
std::unique_ptr<LaneWindow> make_cuda_lane_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                  std::uint64_t size);
std::unique_ptr<PrivateWindow> make_cuda_private_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                        std::uint64_t size);
std::unique_ptr<Fences> make_cuda_fences(const cuda::ClientContext& context);
std::unique_ptr<Pace> make_cuda_pace(const cuda::ClientContext& context);
/// None without a page for gates.
std::unique_ptr<GatedStreams> make_cuda_gated_streams(const cuda::ClientContext& context);

}  // namespace salus::device
