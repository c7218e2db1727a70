#include "device/host/host_lane_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <unordered_map>
#include <utility>

#include "device/host/host_client_device.h"
#include "os/descriptor.h"
#include "os/file.h"

namespace salus::device {
namespace {

/// Clients map whole granules of their arenas; a file that ends within one would fault.
constexpr std::int64_t kUnit = 64 * 1024;

Bytes all_memory() {
    struct sysinfo info {};
    if (::sysinfo(&info) != 0) return gibibytes(1);
    return {static_cast<std::int64_t>(info.totalram * info.mem_unit)};
}

/// The rest is for everything that is not a job.
Bytes most_of_the_memory() { return {all_memory().count / 10 * 8}; }

class HostLaneMemory : public LaneMemory {
public:
    explicit HostLaneMemory(std::string name = {}, unsigned devices = 1)
        : LaneMemory(kHostTraits, std::move(name), {most_of_the_memory().count / devices}, all_memory()) {}

    Result<bool> provide(LaneId lane, Bytes size) override {
        auto found = lanes_.find(lane);
        if (found == lanes_.end()) {
            const std::string label = "salus-lane-" + std::to_string(static_cast<std::uint32_t>(lane));
            os::Descriptor descriptor = os::make_memory_file(label.c_str());
            if (!descriptor) return Error{std::string("no memory for a lane: ") + std::strerror(errno)};
            // A client that shrinks the file, or seals it further, would harm the others.
            os::seal_against_shrinking(descriptor.get());
            found = lanes_.emplace(lane, Memory{std::move(descriptor), Bytes{}}).first;
        }
        Memory& memory = found->second;
        size = {(size.count + kUnit - 1) / kUnit * kUnit};
        if (size > memory.size) {
            if (::ftruncate(memory.file.get(), size.count) != 0) {
                return Error{std::string("a lane cannot grow: ") + std::strerror(errno)};
            }
            memory.size = size;
        }
        return true;
    }

    std::size_t pieces_for(Bytes) const override { return 1; }  // the file

    Result<std::vector<os::Descriptor>> pass_on(LaneId lane, std::size_t, std::size_t) override {
        std::vector<os::Descriptor> files;
        const auto found = lanes_.find(lane);
        if (found == lanes_.end()) return Error{"there is no such lane"};
        files.push_back(os::duplicate(found->second.file.get()));
        if (!files[0]) return Error{std::string("a lane's memory cannot be passed to clients: ") + std::strerror(errno)};
        return files;
    }

    void trim(LaneId lane, Bytes size) override {
        const auto found = lanes_.find(lane);
        if (found == lanes_.end() || found->second.size <= size) return;
        ::fallocate(found->second.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size.count,
                    (found->second.size - size).count);
    }

    void release(LaneId lane) override { lanes_.erase(lane); }
    bool renew(LaneId) override { return false; }

    bool is_mapped_in(int pid) const override {
        std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
        if (!maps) return true;
        for (std::string line; std::getline(maps, line);) {
            if (line.find("memfd:salus-lane") != std::string::npos) return true;
        }
        return false;
    }

    std::optional<Usage> usage(const std::vector<int>&) const override { return std::nullopt; }

private:
    struct Memory {
        os::Descriptor file;
        Bytes size;  ///< of the file; never shrinks
    };
    std::unordered_map<LaneId, Memory> lanes_;
};

}  // namespace

std::unique_ptr<LaneMemory> make_host_lane_memory() { return std::make_unique<HostLaneMemory>(); }

std::vector<std::unique_ptr<LaneMemory>> make_host_lane_memories(unsigned count) {
    std::vector<std::unique_ptr<LaneMemory>> devices;
    for (unsigned i = 0; i < count; ++i)
        devices.push_back(std::make_unique<HostLaneMemory>("host-" + std::to_string(i), count));
    return devices;
}

}  // namespace salus::device
