// A client's context on a GPU, and what the parts of its device share: calls in that context, address space, new memory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "device/cuda/gpu.h"
#include "wire/gate_page.h"

namespace salus::device::cuda {

struct ClientContext {
    const Driver* driver = nullptr;
    Context context = nullptr;
    AllocationProperties properties{};
    AccessDescription access{};
    GatePage* gates = nullptr;  ///< this process's
};

/// Makes our context the calling thread's current one while it lives. The helper has no context, and a script may have made
/// another GPU's context current: then a stream handle, such as 0, would mean a stream of that GPU.
class InContext {
public:
    explicit InContext(const ClientContext& client) : driver_(*client.driver) {
        changed_ = driver_.get_current(&before_) != kSuccess || before_ != client.context;
        if (changed_) driver_.set_current(client.context);
    }
    ~InContext() {
        if (changed_) driver_.set_current(before_);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

private:
    const Driver& driver_;
    Context before_ = nullptr;
    bool changed_ = false;
};

/// Whether the process's gate is kept open for these calls: for all that wait for work on the device.
enum class Gate : bool { kKeptOpen, kAsItIs };

/// As above; the thread may also make calls that would otherwise spoil a graph capture, here or in another thread.
class ContextScope {
public:
    explicit ContextScope(const ClientContext& client, Gate gate = Gate::kKeptOpen)
        : open_(gate == Gate::kKeptOpen ? client.gates : nullptr), in_context_(client), driver_(*client.driver) {
        driver_.exchange_capture_mode(&mode_);
    }
    ~ContextScope() { driver_.exchange_capture_mode(&mode_); }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

private:
    KeepGateOpen open_;
    InContext in_context_;
    const Driver& driver_;
    int mode_ = kCaptureModeRelaxed;
};

/// Address space that is released when this is destroyed.
class Reservation {
public:
    static Result<Reservation> make(const Driver& driver, std::uint64_t size);
    ~Reservation() {
        if (size_ > 0) driver_->address_free(start_, size_);
    }
    Reservation(Reservation&& other) noexcept
        : driver_(other.driver_), start_(other.start_), size_(std::exchange(other.size_, 0)) {}
    Reservation& operator=(Reservation&&) = delete;

    Address start() const { return start_; }

private:
    Reservation(const Driver& driver, Address start, std::uint64_t size) : driver_(&driver), start_(start), size_(size) {}

    const Driver* driver_;
    Address start_;
    std::uint64_t size_;
};

/// New memory at this address; 0 if there is none.
Handle map_new(const ClientContext& client, Address at, std::uint64_t size);
void put_away(const ClientContext& client, Address at, std::uint64_t size, Handle handle);

/// A piece of a window.
struct Piece {
    std::size_t number = 0;
    Address at = 0;
    std::uint64_t size = 0;
};
/// New memory for pieces that lie side by side, or nothing changes: kOutOfMemory if there is not enough. Many at once,
/// because to set access is the slow step.
Status map_new_side_by_side(const ClientContext& client, std::span<const Piece> pieces, std::vector<Handle>& handles);
bool unmap_side_by_side(const ClientContext& client, std::span<const Piece> pieces);

}  // namespace salus::device::cuda
