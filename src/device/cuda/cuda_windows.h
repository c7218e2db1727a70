// The parts of a client's side of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/context_scope.h"
#include "device/device.h"

namespace salus::device {

// Note [Moving pieces]
// Paging moves the pieces of both windows that have memory of their own. From begin_move() to end_move() they are on the
// move, and it takes both page-out and page-in to come to the end. Meanwhile the windows serve no new memory, and what is
// given back stays on the books: a piece that nobody wants any more is given up at the end, or need not come back.
class MovablePieces {
public:
    virtual ~MovablePieces() = default;
    using Piece = cuda::Piece;
    /// Those with memory of their own, in order of their addresses.
    virtual std::vector<Piece> begin_move() = 0;
    /// Unmaps pieces that lie side by side and gives up their memory. False: all is as before. REQUIRES: drained.
    virtual bool vacate(std::span<const Piece> pieces) = 0;
    /// Maps new memory for them, or says why they have none: kOutOfMemory if there is not enough.
    virtual cuda::Status refill(std::span<const Piece> pieces) = 0;
    /// Whether somebody still wants what was there.
    virtual bool is_wanted(const Piece& piece) const = 0;
    virtual void end_move() = 0;
};
class CudaLaneWindowBase : public LaneWindow, public MovablePieces {
public:
    using LaneWindow::LaneWindow;
};
class CudaPrivateWindowBase : public PrivateWindow, public MovablePieces {
public:
    using PrivateWindow::PrivateWindow;
};

/// REQUIRES: the space is a piece (cuda::kPieceMax) larger than the window: evacuated pieces are copied through it.
std::unique_ptr<CudaLaneWindowBase> make_cuda_lane_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                          std::uint64_t size);
std::unique_ptr<CudaPrivateWindowBase> make_cuda_private_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                                std::uint64_t size);
/// The windows must outlive it.
std::unique_ptr<Pager> make_cuda_pager(const cuda::ClientContext& context, std::vector<MovablePieces*> windows,
                                       const std::string& directory);
std::unique_ptr<Fences> make_cuda_fences(const cuda::ClientContext& context);
std::unique_ptr<Pace> make_cuda_pace(const cuda::ClientContext& context);
/// None without a page for gates.
std::unique_ptr<GatedStreams> make_cuda_gated_streams(const cuda::ClientContext& context);

}  // namespace salus::device
