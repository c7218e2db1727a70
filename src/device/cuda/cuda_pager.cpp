#include <algorithm>
#include <deque>
#include <utility>

#include "device/cuda/cuda_windows.h"
#include "device/page_places.h"
#include "os/clock.h"

namespace salus::device {
namespace {

using cuda::kSuccess;

/// Pieces that lie side by side move together, up to this much.
constexpr std::uint64_t kRunMax = std::uint64_t{64} << 20;
/// So many runs are on the way at once: enough that copies never wait for a piece to be mapped or unmapped.
constexpr std::size_t kAhead = 4;

// Note [Paging on the GPU]
// Memory moves in runs: copies on a stream of our own, and unmapping behind them on the way out; on the way in, new memory
// is mapped ahead of the copies, at the same addresses. So the device's memory is free bit by bit, and two processes can
// change places at once.
// - A run leaves the device only when its copy has succeeded. Whatever fails, nothing is lost: the run stays, and so do
// those
//   after it. What stays is counted (Window::backed), and the service goes on charging it.
// - If the device lacks memory on the way in, the runs that are in stay in, and page_in() is called again.
// - Work that still uses the memory would touch what is not mapped, which ends a CUDA context. So only a client is paged
//   whose one thread waits in begin(), and only when its whole context has drained.
class CudaPager : public Pager {
public:
    CudaPager(const cuda::ClientContext& context, std::vector<MovablePieces*> windows, const std::string& directory)
        : context_(context), windows_(std::move(windows)), places_(directory) {}
    ~CudaPager() override {
        const cuda::ContextScope scope(context_);
        for (const cuda::Event event : events_) driver().event_destroy(event);
        if (stream_) driver().stream_destroy(stream_);
        for (const Run& run : out_) places_.give_back(run.place);
    }
    CudaPager(const CudaPager&) = delete;
    CudaPager& operator=(const CudaPager&) = delete;

    bool page_out(const std::vector<Part>&) override {
        const cuda::ContextScope scope(context_);
        moved_ = {};
        if (!out_.empty()) return true;
        if (!is_ready()) return false;
        const std::uint64_t start = os::now_ns();
        places_.look();
        std::vector<Run> runs;
        for (MovablePieces* window : windows_) add_runs(*window, runs);
        std::deque<Run> under_way;
        std::size_t begun = 0;
        bool ok = true;
        for (Run& run : runs) {
            if (ok && begin_out(run, begun)) {
                under_way.push_back(std::move(run));
                ++begun;
            } else {
                ok = false;  // it stays, and those behind it
            }
            if (under_way.size() == kAhead) finish_out(under_way);
        }
        while (!under_way.empty()) finish_out(under_way);
        if (out_.empty()) end_moves();
        moved_.ns = os::now_ns() - start;
        return !out_.empty();
    }

    bool page_in() override {
        const cuda::ContextScope scope(context_);
        moved_ = {};
        lacks_memory_ = false;
        const std::uint64_t start = os::now_ns();
        std::size_t copied = 0;  // or need not be
        bool ok = true;
        for (; ok && copied < out_.size(); copied += ok ? 1 : 0) ok = begin_in(out_[copied]);
        // What is on its way must arrive, whatever else has failed.
        if (driver().stream_synchronize(stream_) != kSuccess) return false;
        for (std::size_t i = 0; i < copied; ++i) places_.give_back(out_[i].place);
        out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(copied));
        moved_.ns = os::now_ns() - start;
        if (!out_.empty()) return false;
        end_moves();
        return true;
    }

    bool lacks_memory() const override { return lacks_memory_; }
    bool serves_meanwhile() const override { return false; }
    std::array<std::uint64_t, kPagePlaces> places() const override { return places_.taken(); }
    Moved moved() const override { return moved_; }
    void forget(const std::byte*) override {}  // the windows know what is still wanted

private:
    /// Pieces of one window that lie side by side.
    struct Run {
        MovablePieces* window = nullptr;
        std::vector<cuda::Piece> pieces;
        std::uint64_t size = 0;
        PagePlaces::Place place{};
        cuda::Event copied = nullptr;

        cuda::Address start() const { return pieces.front().at; }
    };

    const cuda::Driver& driver() const { return *context_.driver; }

    bool is_ready() {
        if (!stream_ && driver().stream_create(&stream_, cuda::kStreamNonBlocking) != kSuccess) return false;
        while (events_.size() < kAhead) {
            cuda::Event event = nullptr;
            if (driver().event_create(&event, cuda::kEventWithoutTime) != kSuccess) return false;
            events_.push_back(event);
        }
        return true;
    }

    static void add_runs(MovablePieces& window, std::vector<Run>& runs) {
        const std::size_t first = runs.size();
        for (const cuda::Piece& piece : window.begin_move()) {
            Run* last = runs.size() > first ? &runs.back() : nullptr;
            const bool goes_on = last && last->start() + last->size == piece.at && last->size + piece.size <= kRunMax;
            if (!goes_on) last = &runs.emplace_back(Run{.window = &window, .pieces = {}});
            last->pieces.push_back(piece);
            last->size += piece.size;
        }
    }

    bool begin_out(Run& run, std::size_t number) {
        const auto place = places_.take(run.size);
        if (!place) return false;
        run.place = *place;
        run.copied = events_[number % kAhead];
        if (driver().copy_to_host_async(place->memory, run.start(), run.size, stream_) == kSuccess &&
            driver().event_record(run.copied, stream_) == kSuccess) {
            return true;
        }
        driver().stream_synchronize(stream_);  // the copy may be under way
        places_.give_back(run.place);
        return false;
    }

    /// The first run under way leaves the device, if it was copied.
    void finish_out(std::deque<Run>& under_way) {
        Run run = std::move(under_way.front());
        under_way.pop_front();
        if (driver().event_synchronize(run.copied) == kSuccess && run.window->vacate(run.pieces)) {
            moved_.bytes += run.size;
            out_.push_back(std::move(run));
        } else {
            places_.give_back(run.place);
        }
    }

    bool begin_in(Run& run) {
        const bool wanted =
            std::ranges::any_of(run.pieces, [&](const cuda::Piece& piece) { return run.window->is_wanted(piece); });
        if (!wanted) return true;
        const cuda::Status status = run.window->refill(run.pieces);
        lacks_memory_ = status == cuda::kOutOfMemory;
        if (status != kSuccess) return false;
        if (driver().copy_to_device_async(run.start(), run.place.memory, run.size, stream_) == kSuccess) {
            moved_.bytes += run.size;
            return true;
        }
        driver().stream_synchronize(stream_);  // the copy may be under way
        run.window->vacate(run.pieces);        // else the next attempt would find it mapped
        return false;
    }

    void end_moves() {
        for (MovablePieces* window : windows_) window->end_move();
    }

    cuda::ClientContext context_;
    std::vector<MovablePieces*> windows_;
    PagePlaces places_;
    cuda::Stream stream_ = nullptr;
    std::vector<cuda::Event> events_;
    std::vector<Run> out_;
    Moved moved_;
    bool lacks_memory_ = false;
};

}  // namespace

std::unique_ptr<Pager> make_cuda_pager(const cuda::ClientContext& context, std::vector<MovablePieces*> windows,
                                       const std::string& directory) {
    return std::make_unique<CudaPager>(context, std::move(windows), directory);
}

}  // namespace salus::device
