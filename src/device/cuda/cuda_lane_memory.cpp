#include "device/cuda/cuda_lane_memory.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "device/cuda/cuda_client_device.h"
#include "device/cuda/nvml.h"
#include "os/descriptor.h"

namespace salus::device {
namespace {

using cuda::kLanePieces;
using cuda::kSuccess;

class CudaLaneMemory : public LaneMemory {
public:
    explicit CudaLaneMemory(const cuda::Gpu& gpu)
        : LaneMemory(kCudaTraits, gpu.uuid, gpu.memory), gpu_(gpu), driver_(*gpu.driver) {
        Result<cuda::Nvml> nvml = cuda::Nvml::open(gpu.uuid);
        if (nvml) nvml_ = std::move(nvml).value();
    }
    ~CudaLaneMemory() override {
        while (!lanes_.empty()) release(lanes_.begin()->first);
    }

    Result<bool> provide(LaneId lane, Bytes size) override {
        std::vector<cuda::Handle>& pieces = lanes_[lane];
        const std::size_t before = pieces.size();
        const std::size_t wanted = pieces_for(size);
        const cuda::AllocationProperties properties = cuda::memory_of(gpu_.ordinal);
        while (pieces.size() < wanted) {
            cuda::Handle handle = 0;
            const cuda::Status status = driver_.memory_create(&handle, kLanePieces.size(pieces.size()), &properties, 0);
            if (status != kSuccess) {
                for (; pieces.size() > before; pieces.pop_back()) driver_.memory_release(pieces.back());
                return Error{"no memory for a lane: " + driver_.name_of(status)};
            }
            pieces.push_back(handle);
        }
        return true;
    }

    std::size_t pieces_for(Bytes size) const override { return kLanePieces.count(static_cast<std::uint64_t>(size.count)); }

    Result<std::vector<os::Descriptor>> pass_on(LaneId lane, std::size_t first, std::size_t end) override {
        std::vector<os::Descriptor> descriptors;
        const std::vector<cuda::Handle>& all = lanes_[lane];
        for (std::size_t i = first; i < std::min(all.size(), end); ++i) {
            int descriptor = -1;
            const cuda::Status status = driver_.memory_export(&descriptor, all[i], cuda::kHandleTypeDescriptor, 0);
            if (status != kSuccess) return Error{"a lane's memory cannot be passed to clients: " + driver_.name_of(status)};
            descriptors.emplace_back(descriptor);
        }
        return descriptors;
    }

    void trim(LaneId lane, Bytes size) override {
        const auto found = lanes_.find(lane);
        if (found == lanes_.end()) return;
        for (; found->second.size() > pieces_for(size); found->second.pop_back())
            driver_.memory_release(found->second.back());
    }

    void release(LaneId lane) override {
        trim(lane, Bytes{});
        lanes_.erase(lane);
    }

    // The pages stay if the driver still holds them for a context that is ending.
    bool renew(LaneId lane) override {
        trim(lane, Bytes{});
        return true;
    }

    bool is_mapped_in(int pid) const override {
        const auto by_process = nvml_ ? nvml_->used_by_process() : std::nullopt;
        return !by_process || by_process->contains(pid);
    }

    std::optional<unsigned> index() const override { return nvml_ ? nvml_->index() : std::nullopt; }

    std::optional<double> busy_share() const override { return nvml_ ? nvml_->busy_share() : std::nullopt; }

    bool is_lost() const override { return is_lost_; }

    std::optional<Usage> usage(const std::vector<int>& clients) const override {
        if (!nvml_) return std::nullopt;
        const std::optional<Bytes> all = nvml_->used();
        const auto by_process = nvml_->used_by_process();
        if (!all) is_lost_ = is_lost_ || nvml_->is_lost();
        if (!all || !by_process) return std::nullopt;
        Usage usage;
        Bytes ours;
        for (const auto& [lane, pieces] : lanes_) ours += {static_cast<std::int64_t>(kLanePieces.start(pieces.size()))};
        for (const int pid : clients) {
            const auto found = by_process->find(pid);
            if (found == by_process->end()) continue;
            usage.clients[pid] = found->second;
            ours += found->second;
        }
        usage.others = std::max(*all - ours, Bytes{});
        for (const auto& [pid, bytes] : *by_process) {
            if (!usage.clients.contains(pid)) usage.strangers.push_back(pid);
        }
        return usage;
    }

private:
    cuda::Gpu gpu_;
    const cuda::Driver& driver_;
    std::optional<cuda::Nvml> nvml_;
    mutable bool is_lost_ = false;
    std::unordered_map<LaneId, std::vector<cuda::Handle>> lanes_;
};

}  // namespace

std::unique_ptr<LaneMemory> make_cuda_lane_memory(const cuda::Gpu& gpu) { return std::make_unique<CudaLaneMemory>(gpu); }

}  // namespace salus::device
