#include "device/host/host_lane_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

namespace salus::device {
namespace {

/// Clients map whole granules of their arenas; a file that ends within one would fault.
constexpr std::int64_t kUnit = 64 * 1024;

class HostLaneMemory : public LaneMemory {
public:
    ~HostLaneMemory() override {
        for (const auto& [lane, memory] : lanes_) ::close(memory.descriptor);
    }

    std::string_view name() const override { return "host"; }

    /// Most of the machine's memory; the rest is for what is not a job's.
    Bytes capacity() const override {
        struct sysinfo info {};
        if (::sysinfo(&info) != 0) return gibibytes(1);
        return {static_cast<std::int64_t>(info.totalram * info.mem_unit / 10 * 8)};
    }

    Result<int> provide(LaneId lane, Bytes size) override {
        auto found = lanes_.find(lane);
        if (found == lanes_.end()) {
            const std::string label = "salus-lane-" + std::to_string(static_cast<std::uint32_t>(lane));
            const int descriptor = ::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
            if (descriptor < 0) return Error{std::string("no memory for a lane: ") + std::strerror(errno)};
            // A client that shrinks the file, or seals it further, would harm the others.
            ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
            found = lanes_.emplace(lane, Memory{descriptor, Bytes{}}).first;
        }
        Memory& memory = found->second;
        size = {(size.count + kUnit - 1) / kUnit * kUnit};
        if (size > memory.size) {
            if (::ftruncate(memory.descriptor, size.count) != 0) {
                return Error{std::string("a lane cannot grow: ") + std::strerror(errno)};
            }
            memory.size = size;
        }
        return memory.descriptor;
    }

    void trim(LaneId lane, Bytes size) override {
        const auto found = lanes_.find(lane);
        if (found == lanes_.end() || found->second.size <= size) return;
        ::fallocate(found->second.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size.count,
                    (found->second.size - size).count);
    }

    void release(LaneId lane) override {
        const auto found = lanes_.find(lane);
        if (found == lanes_.end()) return;
        ::close(found->second.descriptor);
        lanes_.erase(found);
    }

private:
    struct Memory {
        int descriptor;
        Bytes size;  ///< of the file; never shrinks
    };
    std::unordered_map<LaneId, Memory> lanes_;
};

}  // namespace

std::unique_ptr<LaneMemory> make_host_lane_memory() { return std::make_unique<HostLaneMemory>(); }

}  // namespace salus::device
