// For tests: a client's memory on the real host device, in this process. The provider of more memory is scripted.
#pragma once

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "client/memory.h"
#include "device/host/host_client_device.h"
#include "device/host/host_lane_memory.h"
#include "os/descriptor.h"

namespace salus::client::test {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

/// P as it stands on the page: with a reserve, so that the client need not ask bit by bit.
constexpr std::uint64_t with_slack(std::uint64_t persistent) { return persistent + persistent / 64 + 2 * kMiB; }

/// Answers as the test says, and records the requests.
class ScriptedProvider : public Provider {
public:
    bool ask(Needs all) override {
        const std::lock_guard lock(mutex_);
        asked.push_back(all);
        return answer ? answer(all) : false;
    }
    bool wait_for_device(unsigned times) override { return wait && wait(times); }
    void observe(std::uint64_t persistent) override {
        const std::lock_guard lock(mutex_);
        observed.push_back(persistent);
    }

    std::function<bool(Needs)> answer;
    std::function<bool(unsigned)> wait;
    std::vector<Needs> asked;
    std::vector<std::uint64_t> observed;

private:
    std::mutex mutex_;
};

/// The real device, but calls fail or wait when a test says so.
class Device {
public:
    explicit Device(std::unique_ptr<device::ClientDevice> real) : real_(std::move(real)) {
        scripted_.traits = real_->traits;
        scripted_.lane = std::make_unique<Lane>(*this);
        scripted_.own = std::make_unique<Own>(*this);
        scripted_.pager = std::make_unique<Pager>(*this);
        scripted_.fences = std::make_unique<Fences>(*this);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    device::ClientDevice& client() { return scripted_; }
    std::byte* lane_window() const { return real_->lane->start(); }
    std::byte* private_window() const { return real_->own->start(); }
    std::uint64_t window_size() const { return real_->own->size(); }

private:
    std::unique_ptr<device::ClientDevice> real_;
    device::ClientDevice scripted_;
    std::uint64_t shown_ = 0;  ///< how much of the lane the window shows

public:
    bool fail_map_lane = false;
    bool fail_make_private = false;
    bool fail_back_private = false;
    bool fail_drain = false;
    bool fail_order = false;
    bool stream_is_gone = false;                           ///< the first stream of an order()
    bool& work_in_flight = scripted_.traits.asynchronous;  ///< the device is asynchronous
    bool has_passed = true;
    bool capturing = false;
    int fences = 0;
    int drains = 0;
    int drains_of_everything = 0;
    std::set<device::Stream> used;    ///< streams used since the last fence ...
    std::set<device::Stream> marked;  ///< ... and those that it marked
    std::vector<std::pair<device::Stream, device::Stream>> ordered;
    std::uint64_t held = 0;                               ///< bytes backed and not discarded
    std::uint64_t held_most = kPlenty;                    ///< the limit of `held` ...
    std::uint64_t held_most_to_evacuate = kPlenty;        ///< ... and its limit for an evacuation
    std::function<void(const std::string&)> on_take_out;  ///< called before memory leaves the address space
    std::function<void()> on_drain;                       ///< called before the device has drained ...
    std::function<void()> on_page_out;                    ///< ... before all memory is written
    std::function<void()> on_page_in;                     ///< ... or all memory is read
    std::function<void()> on_map_lane;                    ///< ... or the lane is mapped
    std::function<void()> on_make_private;                ///< ... or a block is copied

private:
    struct Lane : device::LaneWindow {
        explicit Lane(Device& device)
            : LaneWindow(device.real_->lane->start(), device.real_->lane->size()),
              device_(device),
              real_(*device.real_->lane) {}
        bool add_memory(std::size_t first, std::vector<os::Descriptor> pieces) override {
            return real_.add_memory(first, std::move(pieces));
        }
        bool resize(std::uint64_t wanted) override {
            if (wanted < device_.shown_) device_.takes_out("resize_lane");
            if (device_.on_map_lane) device_.on_map_lane();
            if (device_.fail_map_lane || !real_.resize(wanted)) return false;
            device_.shown_ = wanted;
            return true;
        }
        void drop() override {
            if (device_.shown_ > 0) device_.takes_out("drop_lane");
            device_.shown_ = 0;
            real_.drop();
        }
        bool make_private(device::Range range) override {
            device_.takes_out("make_private");
            if (device_.on_make_private) device_.on_make_private();
            return !device_.fail_make_private && device_.held + range.size <= device_.held_most_to_evacuate &&
                   real_.make_private(range);
        }
        bool restore(device::Range range) override {
            device_.takes_out("restore_lane");
            return !device_.fail_map_lane && real_.restore(range);
        }
        void before_fork(const std::vector<device::Range>& alive) override { real_.before_fork(alive); }
        void after_fork_in_parent() override { real_.after_fork_in_parent(); }
        void after_fork_in_child() override { real_.after_fork_in_child(); }

        Device& device_;
        device::LaneWindow& real_;
    };
    struct Own : device::PrivateWindow {
        explicit Own(Device& device)
            : PrivateWindow(device.real_->own->start(), device.real_->own->size()),
              device_(device),
              real_(*device.real_->own) {}
        bool back(device::Range range) override {
            if (device_.fail_back_private || device_.held + range.size > device_.held_most || !real_.back(range))
                return false;
            device_.held += range.size;
            note_backed();
            return true;
        }
        void discard(device::Range range) override {
            device_.takes_out("discard_private");
            device_.held -= range.size;
            note_backed();
            real_.discard(range);
        }
        void note_backed() { set_backed(device_.work_in_flight ? device_.held : 0); }

        Device& device_;
        device::PrivateWindow& real_;
    };
    struct Pager : device::Pager {
        explicit Pager(Device& device) : device_(device), real_(*device.real_->pager) {}
        bool page_out(const std::vector<device::Part>& parts) override {
            if (device_.on_page_out) device_.on_page_out();
            return real_.page_out(parts);
        }
        bool page_in() override {
            if (device_.on_page_in) device_.on_page_in();
            return real_.page_in();
        }
        void forget(const std::byte* start) override { real_.forget(start); }
        void after_fork_in_parent() override { real_.after_fork_in_parent(); }
        void after_fork_in_child() override { real_.after_fork_in_child(); }

        Device& device_;
        device::Pager& real_;
    };
    struct Fences : device::Fences {
        explicit Fences(Device& device) : device_(device) {}
        void uses(device::Stream stream) override { device_.used.insert(stream); }
        Order order(device::Stream first, device::Stream second) override {
            if (device_.stream_is_gone) return Order::kGone;
            if (device_.fail_order) return Order::kNotNow;
            device_.ordered.push_back({first, second});
            return Order::kDone;
        }
        bool fence() override {
            ++device_.fences;
            device_.marked = std::exchange(device_.used, {});
            return !device_.capturing;
        }
        bool passed() override { return device_.has_passed && !device_.capturing; }
        void drain() override {
            ++device_.drains;
            if (device_.on_drain) device_.on_drain();
        }
        bool drain_everything() override {
            ++device_.drains_of_everything;
            if (device_.on_drain) device_.on_drain();
            return !device_.fail_drain;
        }

        Device& device_;
    };

    void takes_out(const char* call) const {
        if (on_take_out) on_take_out(call);
    }
};

/// Whether this address, which may be any, can be read; asks the kernel.
inline bool readable(const void* at) {
    char byte = 0;
    iovec local{&byte, 1};
    iovec remote{const_cast<void*>(at), 1};
    return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

inline constexpr std::size_t kStride = 4096;

/// Writes 8 bytes to each page, which is enough to tell blocks and pages apart.
inline void fill(void* block, std::size_t size, std::uint64_t key) {
    auto* bytes = static_cast<std::byte*>(block);
    for (std::size_t i = 0; i < size; i += kStride) std::memcpy(bytes + i, &(key += 0x9e3779b97f4a7c15ull), 8);
}
inline bool holds(const void* block, std::size_t size, std::uint64_t key) {
    const auto* bytes = static_cast<const std::byte*>(block);
    for (std::size_t i = 0; i < size; i += kStride) {
        key += 0x9e3779b97f4a7c15ull;
        if (std::memcmp(bytes + i, &key, 8) != 0) return false;
    }
    return true;
}

class MemoryTest : public ::testing::Test {
protected:
    MemoryTest() : check_handler_(set_check_handler(throw_check_failure)) { start(mebibytes(64)); }
    ~MemoryTest() override {
        set_check_handler(check_handler_);
        if (elsewhere_) ::munmap(elsewhere_, kElsewhere);
    }

    void start(Bytes capacity, Limit* limit = nullptr) {
        memory_.reset();
        auto device = device::make_host_client_device(capacity);
        ASSERT_TRUE(device.ok()) << device.error();
        device_ = std::make_unique<Device>(std::move(device).value());
        memory_ = std::make_unique<Memory>(page_, device_->client(), provider_, limit);
        memory_->set_alone(false);
        memory_->set_room(kPlenty);
        has_lane_ = false;
    }

    /// A lane's memory, as passed to a client.
    std::vector<os::Descriptor> lane_memory(std::uint64_t size, LaneId lane = LaneId{0}) {
        EXPECT_TRUE(lanes_->provide(lane, {static_cast<std::int64_t>(size)}).ok());
        return lanes_->pass_on(lane, 0, 1).value();
    }
    void map_lane(std::uint64_t size, LaneId lane = LaneId{0}) {
        ASSERT_TRUE(memory_->add_lane_memory(0, lane_memory(size, lane)));
        ASSERT_TRUE(memory_->map_lane(size));
        has_lane_ = true;
    }
    void grow_lane(std::uint64_t size) {
        lane_memory(size);
        ASSERT_TRUE(memory_->map_lane(size));
    }
    /// A turn as the service grants it: with the private memory that the client wants if it has a lane, else with plenty.
    void turn_begins() {
        page_.allowed_private = has_lane_ ? page_.wanted_persistent.load() : kPlenty;
        memory_->turn_begins();
    }
    /// A turn with a grant for these sizes; the client has to ask for more.
    void begin_turn(std::uint64_t p, std::uint64_t t) {
        page_.wanted_persistent = p;
        page_.wanted_ephemeral = t;
        turn_begins();
    }
    /// The lane as another client sees it.
    std::byte* elsewhere(LaneId lane = LaneId{0}) {
        if (elsewhere_) ::munmap(elsewhere_, kElsewhere);
        const std::vector<os::Descriptor> memory = lane_memory(kElsewhere, lane);
        elsewhere_ = ::mmap(nullptr, kElsewhere, PROT_READ | PROT_WRITE, MAP_SHARED, memory[0].get(), 0);
        EXPECT_NE(elsewhere_, MAP_FAILED);
        return static_cast<std::byte*>(elsewhere_);
    }
    std::uint64_t offset_in_lane(const void* block) const {
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(block) - device_->lane_window());
    }

    void* automatic(std::uint64_t size) { return memory_->allocate(size, Kind::kAuto, /*inside=*/true); }
    void* ephemeral(std::uint64_t size) { return memory_->allocate(size, Kind::kEphemeral, /*inside=*/true); }
    void* persistent(std::uint64_t size, bool inside = false) { return memory_->allocate(size, Kind::kPersistent, inside); }
    bool in_private_window(const void* block) const {
        return block >= device_->private_window() && block < device_->private_window() + device_->window_size();
    }

    /// An iteration that allocates blocks of these sizes, then frees them in order.
    void iterate(const std::vector<std::uint64_t>& sizes) {
        turn_begins();
        std::vector<void*> blocks;
        for (const std::uint64_t size : sizes) blocks.push_back(automatic(size));
        for (void* block : blocks) memory_->free(block);
        EXPECT_TRUE(memory_->boundary());
    }
    /// An ephemeral block, filled with `key`, that is alive at a boundary and therefore evacuated.
    std::byte* evacuated(std::uint64_t size, std::uint64_t key) {
        void* block = ephemeral(size);
        EXPECT_TRUE(memory_->in_lane(block));
        fill(block, size, key);
        EXPECT_TRUE(memory_->boundary());
        EXPECT_FALSE(memory_->in_lane(block));
        return static_cast<std::byte*>(block);
    }

    static constexpr std::uint64_t kElsewhere = 64 * kMiB;
    ControlPage page_;
    bool has_lane_ = false;
    ScriptedProvider provider_;
    std::unique_ptr<device::LaneMemory> lanes_ = device::make_host_lane_memory();
    std::unique_ptr<Device> device_;
    std::unique_ptr<Memory> memory_;

private:
    CheckHandler check_handler_;  ///< the previous one: in a client, a failed check is an exception
    void* elsewhere_ = nullptr;
};

}  // namespace salus::client::test
