#include <algorithm>
#include <map>

#include "device/cuda/cuda_windows.h"

namespace salus::device {
namespace {

using cuda::kPrivatePieces;

/// Requests from this size on first check how much memory is free.
constexpr std::uint64_t kAskFirst = std::uint64_t{256} << 20;

/// See Note [Pieces].
class CudaPrivateWindow : public PrivateWindow {
public:
    CudaPrivateWindow(const cuda::ClientContext& context, cuda::Reservation space, std::uint64_t size)
        : PrivateWindow(reinterpret_cast<std::byte*>(space.start()), size), context_(context), space_(std::move(space)) {}
    ~CudaPrivateWindow() override {
        const cuda::ContextScope scope(context_);
        for (const auto& [piece, backed] : pieces_) put_away(piece, backed);
    }

    bool back(Range range) override {
        const cuda::ContextScope scope(context_);
        // Not piece by piece until the GPU's memory is exhausted: others would lack it meanwhile.
        if (range.size >= kAskFirst && missing_in(range) > free_memory()) return false;
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::size_t piece = kPrivatePieces.at(at);
            const std::uint64_t end = std::min(kPrivatePieces.start(piece + 1), range.offset + range.size);
            auto found = pieces_.find(piece);
            if (found == pieces_.end()) {
                const cuda::Handle handle = cuda::map_new(context_, at_piece(piece), kPrivatePieces.size(piece));
                if (!handle) {
                    discard({range.offset, at - range.offset});
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
        for (std::uint64_t at = range.offset; at < range.offset + range.size;) {
            const std::size_t piece = kPrivatePieces.at(at);
            const std::uint64_t end = std::min(kPrivatePieces.start(piece + 1), range.offset + range.size);
            const auto found = pieces_.find(piece);
            if (found != pieces_.end() && (found->second.bytes -= end - at) == 0) {
                put_away(piece, found->second);
                pieces_.erase(found);
                set_backed(backed() - kPrivatePieces.size(piece));
            }
            at = end;
        }
    }

private:
    struct Backed {
        cuda::Handle handle;
        std::uint64_t bytes;  ///< that are wanted
    };

    const cuda::Driver& driver() const { return *context_.driver; }
    cuda::Address at_piece(std::size_t piece) const { return space_.start() + kPrivatePieces.start(piece); }
    void put_away(std::size_t piece, const Backed& backed) const {
        cuda::put_away(context_, at_piece(piece), kPrivatePieces.size(piece), backed.handle);
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
    std::map<std::size_t, Backed> pieces_;
};

}  // namespace

std::unique_ptr<PrivateWindow> make_cuda_private_window(const cuda::ClientContext& context, cuda::Reservation space,
                                                        std::uint64_t size) {
    return std::make_unique<CudaPrivateWindow>(context, std::move(space), size);
}

}  // namespace salus::device
