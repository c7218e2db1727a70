#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "device/cuda/cuda_windows.h"

namespace salus::device {
namespace {

using cuda::kPrivatePieces;

/// Requests from this size on first check how much memory is free.
constexpr std::uint64_t kAskFirst = std::uint64_t{256} << 20;

/// See Note [Pieces].
class CudaPrivateWindow : public CudaPrivateWindowBase {
public:
    CudaPrivateWindow(const cuda::ClientContext& context, cuda::Reservation space, std::uint64_t size)
        : CudaPrivateWindowBase(reinterpret_cast<std::byte*>(space.start()), size),
          context_(context),
          space_(std::move(space)) {}
    ~CudaPrivateWindow() override {
        const cuda::ContextScope scope(context_);
        for (const auto& [piece, backed] : pieces_) put_away(piece, backed);
    }

    bool back(Range range) override {
        const cuda::ContextScope scope(context_);
        const std::lock_guard lock(mutex_);
        if (moves_) return false;
        // Not piece by piece until the GPU's memory is exhausted: others would lack it meanwhile.
        if (range.size >= kAskFirst && missing_in(range) > free_memory()) return false;
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::size_t piece = kPrivatePieces.at(at);
            const std::uint64_t end = std::min(kPrivatePieces.start(piece + 1), range.offset + range.size);
            auto found = pieces_.find(piece);
            if (found == pieces_.end()) {
                const cuda::Handle handle = cuda::map_new(context_, at_piece(piece), kPrivatePieces.size(piece));
                if (!handle) {
                    give_up({range.offset, at - range.offset});
                    return false;
                }
                found = pieces_.emplace(piece, Backed{handle, 0}).first;
                set_backed(backed() + kPrivatePieces.size(piece));
            }
            found->second.bytes += end - at;
            at = end;
        }
        return true;
    }

    void discard(Range range) override {
        const cuda::ContextScope scope(context_);
        const std::lock_guard lock(mutex_);
        give_up(range);
    }

    std::vector<Piece> begin_move() override {
        const std::lock_guard lock(mutex_);
        moves_ = true;
        std::vector<Piece> pieces;
        for (const auto& [piece, backed] : pieces_) pieces.push_back({piece, at_piece(piece), kPrivatePieces.size(piece)});
        return pieces;
    }
    bool vacate(std::span<const Piece> pieces) override {
        const std::lock_guard lock(mutex_);
        if (!cuda::unmap_side_by_side(context_, pieces)) return false;
        for (const Piece& piece : pieces) {
            driver().memory_release(std::exchange(pieces_.at(piece.number).handle, 0));
            set_backed(backed() - piece.size);
        }
        return true;
    }
    cuda::Status refill(std::span<const Piece> pieces) override {
        const std::lock_guard lock(mutex_);
        std::vector<cuda::Handle> handles;
        const cuda::Status status = cuda::map_new_side_by_side(context_, pieces, handles);
        if (status != cuda::kSuccess) return status;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            pieces_.at(pieces[i].number).handle = handles[i];
            set_backed(backed() + pieces[i].size);
        }
        return cuda::kSuccess;
    }
    bool is_wanted(const Piece& piece) const override {
        const std::lock_guard lock(mutex_);
        return pieces_.at(piece.number).bytes > 0;
    }
    void end_move() override {
        const std::lock_guard lock(mutex_);
        moves_ = false;
        for (auto it = pieces_.begin(); it != pieces_.end();) it = it->second.bytes > 0 ? std::next(it) : erase(it);
    }

private:
    struct Backed {
        cuda::Handle handle;  ///< 0: it is paged out
        std::uint64_t bytes;  ///< that are wanted
    };
    using Pieces = std::map<std::size_t, Backed>;

    void give_up(Range range) {
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::size_t piece = kPrivatePieces.at(at);
            const std::uint64_t end = std::min(kPrivatePieces.start(piece + 1), range.offset + range.size);
            const auto found = pieces_.find(piece);
            if (found != pieces_.end() && (found->second.bytes -= end - at) == 0 && !moves_) erase(found);
            at = end;
        }
    }
    Pieces::iterator erase(Pieces::iterator piece) {
        if (piece->second.handle) set_backed(backed() - kPrivatePieces.size(piece->first));
        put_away(piece->first, piece->second);
        return pieces_.erase(piece);
    }

    const cuda::Driver& driver() const { return *context_.driver; }
    cuda::Address at_piece(std::size_t piece) const { return space_.start() + kPrivatePieces.start(piece); }
    void put_away(std::size_t piece, const Backed& backed) const {
        if (backed.handle) cuda::put_away(context_, at_piece(piece), kPrivatePieces.size(piece), backed.handle);
    }

    std::uint64_t missing_in(Range range) const {
        std::uint64_t missing = 0;
        const std::uint64_t end = range.offset + range.size;
        for (std::size_t piece = kPrivatePieces.at(range.offset); kPrivatePieces.start(piece) < end; ++piece) {
            if (!pieces_.contains(piece)) missing += kPrivatePieces.size(piece);
        }
        return missing;
    }
    std::uint64_t free_memory() const {
        std::size_t free = 0;
        std::size_t total = 0;
        return driver().memory_info(&free, &total) == cuda::kSuccess ? free : ~std::uint64_t{0};
    }

    cuda::ClientContext context_;
    cuda::Reservation space_;
    mutable std::mutex mutex_;  ///< the pager moves pieces meanwhile; held for no wait
    Pieces pieces_;
    bool moves_ = false;  ///< Note [Moving pieces]
};

}  // namespace

std::unique_ptr<CudaPrivateWindowBase> make_cuda_private_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                                std::uint64_t size) {
    return std::make_unique<CudaPrivateWindow>(context, std::move(space), size);
}

}  // namespace salus::device
