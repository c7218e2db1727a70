// Both sides of a GPU's memory over the stand-in, for tests.
// Each test runs in a process of its own: the driver that is loaded there stays.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/memory.h"
#include "client/memory_fixture.h"
#include "device/cuda/cuda_client_device.h"
#include "device/cuda/cuda_lane_memory.h"
#include "device/cuda/nvml.h"
#include "tests/standin/standin_fixture.h"

namespace salus::device::on_standin {

using client::Kind;
using client::Memory;
using client::Needs;
using client::test::fill;
using client::test::holds;
using client::test::readable;
using client::test::ScriptedProvider;
using cuda::kSuccess;
using test::Line;
using test::Standin;

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
/// The size of the first pieces of both windows.
inline constexpr std::uint64_t kPiece = cuda::kPieceMin;
inline constexpr LaneId kLane{0};
inline constexpr int kContextMiB = 64;

constexpr Bytes bytes_of(std::uint64_t size) { return {static_cast<std::int64_t>(size)}; }

/// In its process: a service's side, and clients'.
struct World {
    World() {
        const Result<cuda::Gpu> opened = cuda::open_gpu();
        EXPECT_TRUE(opened.ok()) << opened.error();
        gpu = opened.value();
        lanes = make_cuda_lane_memory(gpu);
    }

    std::unique_ptr<ClientDevice> client() const {
        auto made = make_cuda_client_device(bytes_of(1024 * kMiB), gpu.uuid, nullptr, paging);
        EXPECT_TRUE(made.ok()) << made.error();
        return std::move(made).value();
    }
    /// The client gets what it lacks of a lane of this size.
    void pass_on(ClientDevice& client, std::uint64_t size, std::size_t first = 0) const {
        ASSERT_TRUE(lanes->provide(kLane, bytes_of(size)).ok());
        auto pieces = lanes->pass_on(kLane, first, lanes->pieces_for(bytes_of(size)));
        ASSERT_TRUE(pieces.ok()) << pieces.error();
        ASSERT_TRUE(client.lane->add_memory(first, std::move(pieces).value()));
    }
    void map_lane(ClientDevice& client, std::uint64_t size) const {
        pass_on(client, size);
        ASSERT_TRUE(client.lane->resize(size));
    }
    std::int64_t used_mib() const {
        return cuda::Nvml::open(gpu.uuid).value().used()->count / static_cast<std::int64_t>(kMiB);
    }

    Standin standin = Standin::start();
    cuda::Gpu gpu;
    std::unique_ptr<LaneMemory> lanes;
    Paging paging;
};

class CudaMemoryTest : public test::StandinTest {
protected:
    CudaMemoryTest() { environment["SALUS_STANDIN_LATENCY"] = "1000"; }
};

/// Bytes of its own memory behind both windows.
inline std::uint64_t backed(const ClientDevice& device) { return device.lane->backed() + device.own->backed(); }

/// One byte of each MiB, which tells pieces apart and costs next to nothing.
inline void mark(std::byte* start, std::uint64_t size, int value) {
    for (std::uint64_t at = 0; at < size; at += kMiB)
        start[at] = static_cast<std::byte>(value + static_cast<int>(at / kMiB));
}
inline bool is_marked(const std::byte* start, std::uint64_t size, int value) {
    for (std::uint64_t at = 0; at < size; at += kMiB) {
        if (!readable(start + at) || start[at] != static_cast<std::byte>(value + static_cast<int>(at / kMiB))) return false;
    }
    return true;
}

/// A client as the library has it, except that there is no service: whatever it asks for, the lane grows by.
class Tenant {
public:
    explicit Tenant(const World& world) : world_(world), device_(world.client()), memory_(page_, *device_, provider_) {
        memory_.set_alone(false);
        memory_.set_room(std::uint64_t{1} << 40);
        provider_.answer = [this](Needs all) {
            if (all.ephemeral > memory_.mapped()) grow(all.ephemeral);
            memory_.set_room(std::max(all.persistent, memory_.private_bytes()));
            return true;
        };
    }

    Memory& memory() { return memory_; }
    ClientDevice& device() { return *device_; }
    ControlPage& page() { return page_; }

    void join(std::uint64_t size) {
        ASSERT_TRUE(world_.lanes->provide(kLane, bytes_of(size)).ok());
        pieces_ = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.add_lane_memory(0, world_.lanes->pass_on(kLane, 0, pieces_).value()));
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void grow(std::uint64_t size) {
        ASSERT_TRUE(world_.lanes->provide(kLane, bytes_of(size)).ok());
        const std::size_t pieces = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.add_lane_memory(pieces_, world_.lanes->pass_on(kLane, pieces_, pieces).value()));
        pieces_ = pieces;
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void shrink(std::uint64_t size) {
        pieces_ = world_.lanes->pieces_for(bytes_of(size));
        ASSERT_TRUE(memory_.map_lane(size));
    }
    void begin(std::uint64_t persistent, std::uint64_t ephemeral) {
        page_.wanted_persistent = page_.allowed_private = persistent;
        page_.wanted_ephemeral = ephemeral;
        memory_.turn_begins();
    }

private:
    const World& world_;
    ControlPage page_;
    ScriptedProvider provider_;
    std::unique_ptr<ClientDevice> device_;
    Memory memory_;
    std::size_t pieces_ = 0;
};

inline cuda::Address address_of(void* block) { return reinterpret_cast<cuda::Address>(block); }

}  // namespace salus::device::on_standin
