#include "sim/workloads.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/random.h"
#include "base/text.h"

namespace salus::sim {
namespace {

// Note [Where the figures come from]
// P, T and iteration times: the jobs of the Salus paper's Table 2 (MLSys 2020) with published run times, on its P100. We
// read its MB as MiB, which errs on the safe side.
// Occupancy: Gavel's measured pairs of jobs on one P100 (stanford-futuredata/gavel, MIT). Under our model two jobs that run
// together reach a throughput of 2 / max(1, a + b) of one alone; fitting a and b over all 340 measured pairs (root mean
// square error 0.12) gives ResNet-18 0.835, 0.845, 0.855 (batch 32, 64, 128) and ResNet-50 0.895, 0.92, 1.0 (batch 32, 64,
// 128). We treat small convolutional networks (alexnet, googlenet, overfeat) like ResNet-18, the others like ResNet-50, each
// at the nearest batch; superres like CycleGAN, the only measured image-to-image network (1.0).
// bench/fit_occupancy.py computes these figures from the data.

struct Model {
    std::string_view name;
    double persistent_mib;
    double ephemeral_mib;
    double iteration_ms;
    double occupancy;
};

constexpr auto kTrainingModels = std::to_array<Model>({
    {"alexnet_25", 265.4, 784.5, 21.3, 0.835},      {"alexnet_50", 294.9, 943.0, 29.3, 0.845},
    {"alexnet_100", 353.9, 1260.1, 45.2, 0.855},    {"googlenet_25", 71.7, 1324.7, 59.3, 0.835},
    {"googlenet_50", 129.8, 1905.0, 100.2, 0.845},  {"googlenet_100", 216.0, 3095.8, 179.8, 0.855},
    {"inception3_25", 235.0, 4309.1, 197.7, 0.895}, {"inception3_50", 380.2, 6502.9, 361.8, 0.92},
    {"inception3_100", 591.3, 10969.7, 682.9, 1.0}, {"inception4_25", 372.2, 7068.0, 405.4, 0.895},
    {"inception4_50", 587.8, 10767.3, 728.5, 0.92}, {"inception4_75", 759.5, 13975.5, 1036.6, 0.92},
    {"overfeat_25", 587.2, 3106.9, 50.4, 0.835},    {"overfeat_50", 617.8, 3281.1, 63.9, 0.845},
    {"overfeat_100", 678.8, 3629.5, 99.0, 0.855},   {"resnet101_25", 282.9, 5367.2, 216.5, 0.895},
    {"resnet101_50", 456.0, 8198.6, 382.6, 0.92},   {"resnet101_75", 702.3, 10956.7, 548.1, 0.92},
    {"resnet152_25", 350.1, 6629.9, 308.7, 0.895},  {"resnet152_50", 575.8, 10614.5, 548.4, 0.92},
    {"resnet152_75", 822.2, 14171.2, 783.5, 0.92},  {"resnet50_25", 227.4, 4300.9, 125.4, 0.895},
    {"resnet50_50", 339.0, 6217.6, 225.7, 0.92},    {"resnet50_75", 459.4, 8125.4, 325.1, 0.92},
    {"vgg11_25", 535.6, 3682.8, 105.9, 0.895},      {"vgg11_50", 564.3, 4672.4, 185.4, 0.92},
    {"vgg11_100", 621.7, 6721.4, 334.0, 1.0},       {"vgg16_25", 556.6, 4332.8, 191.6, 0.895},
    {"vgg16_50", 585.3, 6157.0, 353.2, 0.92},       {"vgg16_100", 642.7, 8970.8, 657.9, 1.0},
    {"vgg19_25", 576.8, 4353.1, 223.9, 0.895},      {"vgg19_50", 605.5, 6157.0, 415.0, 0.92},
    {"vgg19_100", 663.0, 9119.8, 770.2, 1.0},
});

// The paper's 100-job trace, reconstructed from the fifo curve of its Fig. 7: device seconds of each job, in order of
// arrival. The trace itself was never published, and the model of each job is not known.
constexpr auto kRecoveredServiceSeconds = std::to_array<double>({
    49.0, 3005.8, 113.8, 35.8,  544.8, 41.8,  333.8, 48.8,  173.8,  31.8, 60.8,  1681.8, 56.8,  59.8,  34.8,  46.8,  245.8,
    84.8, 134.8,  59.8,  42.8,  692.8, 42.8,  400.8, 29.8,  519.8,  43.8, 31.8,  30.8,   60.8,  77.8,  50.8,  44.8,  224.8,
    87.8, 32.8,   48.8,  107.8, 58.8,  32.8,  602.8, 48.8,  1237.8, 44.8, 100.8, 83.8,   194.8, 52.8,  814.8, 43.8,  281.8,
    43.8, 56.8,   61.8,  32.8,  31.8,  217.8, 173.8, 32.8,  77.8,   59.8, 30.8,  49.8,   35.8,  147.8, 101.8, 939.8, 48.8,
    29.8, 43.8,   309.8, 173.8, 32.8,  44.8,  33.8,  142.8, 31.8,   55.8, 33.8,  383.8,  32.8,  115.8, 60.8,  121.8, 309.8,
    70.8, 51.8,   43.8,  70.8,  57.8,  54.8,  46.8,  262.8, 32.8,   60.8, 32.8,  32.8,   175.8, 35.8,  56.8,
});
constexpr double kRecoveredInterarrivalSeconds = 29.8;

struct InferenceModel {
    std::string_view name;
    double persistent_mib;
    double ephemeral_mib;
};

constexpr auto kInferenceModels = std::to_array<InferenceModel>({
    {"alexnet_1", 237.1, 335.7},
    {"googlenet_1", 37.9, 696.6},
    {"inception3_1", 106.3, 2015.1},
    {"inception4_1", 172.2, 3271.4},
    {"overfeat_1", 557.9, 2379.9},
    {"resnet101_1", 171.5, 2317.1},
    {"resnet152_1", 231.4, 2317.1},
    {"resnet50_1", 124.4, 2291.5},
    {"speech_1", 116.4, 27.7},
    {"superres_1", 0.9, 136.2},
    {"vae_1", 5.0, 1.5},
    {"vgg11_1", 508.0, 2202.8},
    {"vgg16_1", 529.0, 2202.8},
    {"vgg19_1", 549.2, 2202.8},
});

SimulatedJob job_of(const Model& model, std::size_t index) {
    SimulatedJob job;
    job.name = fmt::format("{:03} {}", index, model.name);
    job.iteration_time = seconds_of(model.iteration_ms / 1e3);
    job.persistent = mebibytes_of(model.persistent_mib);
    job.ephemeral = mebibytes_of(model.ephemeral_mib);
    job.occupancy = model.occupancy;
    return job;
}

std::vector<SimulatedJob> salus_100(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<SimulatedJob> jobs;
    for (std::size_t i = 0; i < count; ++i) {
        SimulatedJob job = job_of(kTrainingModels[random.below(kTrainingModels.size())], i);
        job.arrival = seconds_of(kRecoveredInterarrivalSeconds * static_cast<double>(i));
        const double service_s = kRecoveredServiceSeconds[i % kRecoveredServiceSeconds.size()];
        job.iterations =
            std::max<std::uint64_t>(1, static_cast<std::uint64_t>(service_s / job.iteration_time.seconds() + 0.5));
        jobs.push_back(std::move(job));
    }
    return jobs;
}

std::vector<SimulatedJob> tuning(const Model& model, std::size_t count) {
    std::vector<SimulatedJob> jobs;
    for (std::size_t i = 0; i < count; ++i) {
        SimulatedJob job = job_of(model, i);
        job.iterations = 500;
        jobs.push_back(std::move(job));
    }
    return jobs;
}

// The iteration time of superres is not published. We assume 50 ms; no ratio between policies depends on it much.
std::vector<SimulatedJob> tuning_superres(std::size_t count, std::uint64_t) {
    return tuning({"superres_128", 60.4, 993.0, 50.0, 1.0}, count);
}

std::vector<SimulatedJob> tuning_resnet50(std::size_t count, std::uint64_t) {
    return tuning({"resnet50_50", 339.0, 6217.6, 225.7, 0.92}, count);
}

// Request times are not published either. We assume 10 ms on the device and one request per second.
std::vector<SimulatedJob> inference_42(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<SimulatedJob> jobs;
    for (std::size_t i = 0; i < count; ++i) {
        const InferenceModel& model = kInferenceModels[i % kInferenceModels.size()];
        SimulatedJob job = job_of({model.name, model.persistent_mib, model.ephemeral_mib, 10.0, 0.3}, i);
        job.startup = seconds_of(random.uniform());
        job.iterations = 300;
        job.think = milliseconds(990);
        job.random_think = true;
        jobs.push_back(std::move(job));
    }
    return jobs;
}

std::vector<SimulatedJob> uniform(std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<SimulatedJob> jobs;
    for (std::size_t i = 0; i < count; ++i) {
        SimulatedJob job;
        job.name = fmt::format("{:03}", i);
        job.arrival = seconds_of(random.between(0.0, 600.0));
        job.iterations = static_cast<std::uint64_t>(random.integer(50, 500));
        job.iteration_time = seconds_of(random.between(0.02, 0.2));
        job.persistent = mebibytes_of(random.between(50.0, 500.0));
        job.ephemeral = mebibytes_of(random.between(200.0, 4000.0));
        jobs.push_back(std::move(job));
    }
    return jobs;
}

constexpr auto kWorkloads = std::to_array<WorkloadInfo>({
    {"salus-100", "the Salus paper's 100-job trace, reconstructed; the seed draws the models", 100, salus_100},
    {"tuning-300", "hyper-parameter tuning: 300 equal jobs of 500 iterations, like superres_128", 300, tuning_superres},
    {"tuning-300-resnet50", "the same with jobs like resnet50_50", 300, tuning_resnet50},
    {"inference-42", "14 models x 3, small requests at random times", 42, inference_42},
    {"uniform", "jobs of uniformly drawn length, size and arrival", 50, uniform},
});

}  // namespace

std::span<const WorkloadInfo> all_workloads() { return kWorkloads; }

Result<std::vector<SimulatedJob>> make_workload(std::string_view spec, std::uint64_t seed) {
    const auto colon = spec.find(':');
    const std::string_view name = spec.substr(0, colon);
    const auto found =
        std::find_if(kWorkloads.begin(), kWorkloads.end(), [&](const WorkloadInfo& w) { return w.name == name; });
    if (found == kWorkloads.end()) {
        std::vector<std::string_view> names;
        for (const WorkloadInfo& w : kWorkloads) names.push_back(w.name);
        const auto near = nearest_name(name, names);
        return Error{fmt::format(
            "unknown workload '{}'{}", name,
            near ? fmt::format("; did you mean '{}'?", *near) : fmt::format("; there are {}", fmt::join(names, ", ")))};
    }
    std::size_t count = found->jobs_default;
    if (colon != std::string_view::npos) {
        const auto number = parse_integer(spec.substr(colon + 1));
        if (!number || *number < 1 || *number > 1'000'000) {
            return Error{fmt::format("workload '{}': the number of jobs is a whole number from 1 to 1000000", spec)};
        }
        count = static_cast<std::size_t>(*number);
    }
    return found->make(count, seed);
}

}  // namespace salus::sim
