#include "device/cuda/cuda_windows.h"

#include <map>
#include <utility>

namespace salus::device {
namespace {

using cuda::ClientContext;
using cuda::ContextScope;
using cuda::Handle;
using cuda::kLanePieces;
using cuda::kSuccess;

// Note [Pieces]
// Both windows consist of pieces (Note [Sizes of pieces]). A piece of the lane's window shows the lane; or private memory,
// while a block in it is evacuated: then the whole piece was copied and is private, free parts included. A piece of the
// private window has memory while any byte of it is wanted.
class CudaLaneWindow : public CudaLaneWindowBase {
public:
    CudaLaneWindow(const ClientContext& context, cuda::Reservation space, std::uint64_t size)
        : CudaLaneWindowBase(reinterpret_cast<std::byte*>(space.start()), size),
          context_(context),
          space_(std::move(space)) {}
    ~CudaLaneWindow() override {
        const ContextScope scope(context_);
        drop();
        for (const auto& [piece, evacuated] : evacuated_)
            if (evacuated.handle) cuda::put_away(context_, at(piece), kLanePieces.size(piece), evacuated.handle);
        if (copies_) driver().stream_destroy(copies_);
    }

    bool add_memory(std::size_t first, std::vector<os::Descriptor> pieces) override {
        const ContextScope scope(context_);
        if (first > pieces_.size()) return false;
        forget_pieces(first);
        for (const os::Descriptor& descriptor : pieces) {
            Handle handle = 0;
            // The driver takes the descriptor itself in place of the pointer, and makes a copy of it.
            void* passed = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor.get()));
            if (driver().memory_import(&handle, passed, cuda::kHandleTypeDescriptor) != kSuccess) return false;
            pieces_.push_back(handle);
        }
        return true;
    }

    bool resize(std::uint64_t wanted_size) override {
        const ContextScope scope(context_);
        const std::size_t wanted = kLanePieces.count(wanted_size);
        if (wanted > pieces_.size() || wanted_size > size()) return false;
        const std::size_t before = mapped_;
        hide(wanted);
        if (!show(wanted)) {
            hide(before);
            return false;
        }
        forget_pieces(mapped_);
        return true;
    }

    void drop() override {
        resize(0);
        forget_pieces(0);
    }

    bool make_private(Range range) override {
        const ContextScope scope(context_);
        const auto [first, last] = pieces_of(range);
        for (std::size_t piece = first; piece <= last; ++piece) {
            auto found = evacuated_.find(piece);
            if (found == evacuated_.end()) {
                const Handle copy = copy_of(piece);
                if (!copy) {
                    if (piece > first) release_evacuated(first, piece - 1);
                    return false;
                }
                found = evacuated_.emplace(piece, Evacuated{copy, 0}).first;
                note_backed();
            }
            ++found->second.blocks;
        }
        return true;
    }

    bool restore(Range range) override {
        const ContextScope scope(context_);
        const auto [first, last] = pieces_of(range);
        return release_evacuated(first, last);
    }

    std::vector<Piece> begin_move() override {
        std::vector<Piece> pieces;
        for (const auto& [piece, evacuated] : evacuated_) pieces.push_back({piece, at(piece), kLanePieces.size(piece)});
        return pieces;
    }
    bool vacate(std::span<const Piece> pieces) override {
        if (!cuda::unmap_side_by_side(context_, pieces)) return false;
        for (const Piece& piece : pieces) driver().memory_release(std::exchange(evacuated_.at(piece.number).handle, 0));
        note_backed();
        return true;
    }
    cuda::Status refill(std::span<const Piece> pieces) override {
        std::vector<Handle> handles;
        if (const cuda::Status status = cuda::map_new_side_by_side(context_, pieces, handles); status != kSuccess)
            return status;
        for (std::size_t i = 0; i < pieces.size(); ++i) evacuated_.at(pieces[i].number).handle = handles[i];
        note_backed();
        return kSuccess;
    }
    bool is_wanted(const Piece& piece) const override { return evacuated_.contains(piece.number); }
    void end_move() override {}

private:
    struct Evacuated {
        Handle handle;       ///< 0: it is paged out
        std::size_t blocks;  ///< that lie in the piece, or reach into it
    };

    const cuda::Driver& driver() const { return *context_.driver; }
    cuda::Address at(std::size_t piece) const { return space_.start() + kLanePieces.start(piece); }
    /// The numbers of its first and its last piece.
    static std::pair<std::size_t, std::size_t> pieces_of(Range range) {
        return {kLanePieces.at(range.offset), kLanePieces.at(range.offset + range.size - 1)};
    }

    bool set_access(std::size_t from, std::size_t to) const {
        return from >= to || driver().memory_set_access(at(from), at(to) - at(from), &context_.access, 1) == kSuccess;
    }

    /// Maps at least this many pieces, except those that are evacuated. False: only some could be mapped, and they cannot be
    /// used.
    bool show(std::size_t wanted) {
        std::size_t from = mapped_;
        for (; mapped_ < wanted; ++mapped_) {
            // Access is set for many pieces at once, because that is the slow step.
            if (evacuated_.contains(mapped_)) {
                if (!set_access(from, mapped_)) return false;
                from = mapped_ + 1;
            } else if (driver().memory_map(at(mapped_), kLanePieces.size(mapped_), 0, pieces_[mapped_], 0) != kSuccess) {
                return false;
            }
        }
        return set_access(from, mapped_);
    }
    /// Maps at most this many pieces.
    void hide(std::size_t wanted) {
        while (mapped_ > wanted) {
            if (!evacuated_.contains(--mapped_)) hide_piece(mapped_);
        }
    }

    void hide_piece(std::size_t piece) const { driver().memory_unmap(at(piece), kLanePieces.size(piece)); }

    void forget_pieces(std::size_t from) {
        for (; pieces_.size() > from; pieces_.pop_back()) driver().memory_release(pieces_.back());
    }

    /// Replaces the piece of the lane by a private copy. 0 if there is no memory for it; then nothing has changed.
    Handle copy_of(std::size_t piece) {
        if (!copies_ && driver().stream_create(&copies_, cuda::kStreamNonBlocking) != kSuccess) return 0;
        const cuda::Address aside = space_.start() + size();
        const std::uint64_t size_of_piece = kLanePieces.size(piece);
        const Handle handle = cuda::map_new(context_, aside, size_of_piece);
        if (!handle) return 0;
        bool ok = driver().copy_on_device(aside, at(piece), size_of_piece, copies_) == kSuccess &&
                  driver().stream_synchronize(copies_) == kSuccess;
        driver().memory_unmap(aside, size_of_piece);
        if (ok) {
            hide_piece(piece);
            ok = show_piece(piece, handle);
            if (!ok) show_piece(piece, pieces_[piece]);
        }
        if (ok) return handle;
        driver().memory_release(handle);
        return 0;
    }

    /// Maps this memory in place of a piece of the lane that has none.
    bool show_piece(std::size_t piece, Handle handle) const {
        if (driver().memory_map(at(piece), kLanePieces.size(piece), 0, handle, 0) != kSuccess) return false;
        if (set_access(piece, piece + 1)) return true;
        hide_piece(piece);
        return false;
    }

    /// Counts one block less in each of these pieces; a piece without blocks shows the lane again. If that fails, the piece
    /// stays private for good: other blocks may lie in it.
    bool release_evacuated(std::size_t first, std::size_t last) {
        bool ok = true;
        for (std::size_t piece = first; piece <= last; ++piece) {
            const auto found = evacuated_.find(piece);
            if (found == evacuated_.end() || --found->second.blocks > 0) continue;
            if (!found->second.handle) {
                evacuated_.erase(
                    found);  // its place in the window has nothing: the client has no lane while it is paged out
                continue;
            }
            hide_piece(piece);
            const bool shown = piece >= mapped_ || show_piece(piece, pieces_[piece]);
            ok = ok && shown;
            if (!shown && show_piece(piece, found->second.handle)) {
                found->second.blocks = 1;
                continue;
            }
            driver().memory_release(found->second.handle);
            evacuated_.erase(found);
            note_backed();
        }
        return ok;
    }

    void note_backed() {
        std::uint64_t bytes = 0;
        for (const auto& [piece, evacuated] : evacuated_) bytes += evacuated.handle ? kLanePieces.size(piece) : 0;
        set_backed(bytes);
    }

    ClientContext context_;
    cuda::Reservation space_;     ///< the window, and room for one piece to copy through
    std::vector<Handle> pieces_;  ///< of the lane, in order
    std::size_t mapped_ = 0;      ///< this many of them are mapped, except evacuated ones
    std::map<std::size_t, Evacuated> evacuated_;
    cuda::Stream copies_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaLaneWindowBase> make_cuda_lane_window(const ClientContext& context, cuda::Reservation space,
                                                          std::uint64_t size) {
    return std::make_unique<CudaLaneWindow>(context, std::move(space), size);
}

}  // namespace salus::device
