// Modules, kernels and their launches. A module's image is the name of its one kernel.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

using Values = std::array<std::uint64_t, 4>;  ///< of a kernel's parameters

struct KernelKind {
    const char* name;
    std::array<std::size_t, 4> sizes;  ///< of its parameters, in bytes
    Step (*step)(const Values& values);
};

/// (address, size in bytes, byte, microseconds)
Step fill(const Values& values) {
    return fill_step(values[0], values[1], static_cast<unsigned char>(values[2]), static_cast<unsigned>(values[3]));
}
/// (address, how many 32-bit integers, what to add to each, microseconds)
Step add(const Values& values) {
    const Address start = values[0];
    const std::uint64_t count = values[1], size = count * sizeof(std::uint32_t);
    const auto summand = static_cast<std::uint32_t>(values[2]);
    return {.touches = {{start, size}}, .duration = std::chrono::microseconds{values[3]}, .run = [=] {
                if (count == 0) return true;
                if (!may_access(start, size, PROT_READ | PROT_WRITE)) return false;
                for (std::uint64_t i = 0; i < count; ++i) reinterpret_cast<std::uint32_t*>(start)[i] += summand;
                return true;
            }};
}
constexpr KernelKind kKernels[] = {
    {"fill", {8, 8, 1, 4}, fill},
    {"add", {8, 8, 4, 4}, add},
};

const KernelKind* kind_named(const char* name) {
    const auto found = std::find_if(std::begin(kKernels), std::end(kKernels),
                                    [&](const KernelKind& kind) { return std::strcmp(kind.name, name) == 0; });
    return found == std::end(kKernels) ? nullptr : &*found;
}

/// The buffer in which parameters lie one after the other, if they are passed so; with its size.
std::optional<std::pair<const std::byte*, std::size_t>> packed(void** extra) {
    const void* buffer = nullptr;
    std::size_t size = 0;
    constexpr std::uintptr_t kEnd = 0, kBuffer = 1, kSize = 2;
    for (; reinterpret_cast<std::uintptr_t>(extra[0]) != kEnd; extra += 2) {
        if (reinterpret_cast<std::uintptr_t>(extra[0]) == kBuffer) buffer = extra[1];
        else if (reinterpret_cast<std::uintptr_t>(extra[0]) == kSize) size = *static_cast<std::size_t*>(extra[1]);
        else return std::nullopt;
    }
    if (!buffer) return std::nullopt;
    return std::pair(static_cast<const std::byte*>(buffer), size);
}

/// Copies the parameters: the program may change them when the launch has returned.
std::optional<Values> values_of(const KernelKind& kind, void** parameters, void** extra) {
    Values values{};
    if ((parameters != nullptr) == (extra != nullptr)) return std::nullopt;
    const auto buffer = extra ? packed(extra) : std::nullopt;
    if (extra && !buffer) return std::nullopt;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < kind.sizes.size(); ++i) {
        const std::size_t size = kind.sizes[i];
        offset = (offset + size - 1) / size * size;
        if (buffer && offset + size > buffer->second) return std::nullopt;
        std::memcpy(&values[i], buffer ? buffer->first + offset : parameters[i], size);
        offset += size;
    }
    return values;
}

Status launch_kernel(Entered& entered, Kernel kernel, const LaunchConfiguration& how, void** parameters, void** extra) {
    const auto found = state.kernels.find(kernel);
    if (found == state.kernels.end()) return kInvalidHandle;
    SALUS_STANDIN_REQUIRE(how.grid_x && how.grid_y && how.grid_z && how.block_x && how.block_y && how.block_z);
    SALUS_STANDIN_FIND(queue, how.stream);
    const KernelKind& kind = *kind_named(state.modules.at(found->second).kernel.c_str());
    const auto values = values_of(kind, parameters, extra);
    SALUS_STANDIN_REQUIRE(values);
    return submit(entered, *queue, kind.step(*values));
}

}  // namespace

Status module_load(Module* module, const void* image) {
    SALUS_STANDIN_ENTER(module_load, kContext);
    SALUS_STANDIN_REQUIRE(module && image);
    const KernelKind* const kind = kind_named(static_cast<const char*>(image));
    if (!kind) return kInvalidImage;
    *module = new_handle();
    state.modules[*module] = {current(), kind->name};
    return kSuccess;
}

Status module_function(Kernel* kernel, Module module, const char* name) {
    SALUS_STANDIN_ENTER(module_function, kContext);
    SALUS_STANDIN_REQUIRE(kernel && name);
    const auto found = state.modules.find(module);
    if (found == state.modules.end()) return kInvalidHandle;
    if (found->second.kernel != name) return kNotFound;
    *kernel = new_handle();
    state.kernels[*kernel] = module;
    return kSuccess;
}

Status module_unload(Module module) {
    SALUS_STANDIN_ENTER(module_unload, kContext);
    if (state.modules.erase(module) == 0) return kInvalidHandle;
    std::erase_if(state.kernels, [&](const auto& kernel) { return kernel.second == module; });
    return kSuccess;
}

Status launch(Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
              unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra) {
    SALUS_STANDIN_ENTER(launch, kContext);
    return launch_kernel(entered, kernel,
                         {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0}, parameters,
                         extra);
}

Status launch_configured(const LaunchConfiguration* configuration, Kernel kernel, void** parameters, void** extra) {
    SALUS_STANDIN_ENTER(launch_configured, kContext);
    SALUS_STANDIN_REQUIRE(configuration && (configuration->attributes || configuration->attribute_count == 0));
    return launch_kernel(entered, kernel, *configuration, parameters, extra);
}

Status launch_cooperative(Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters) {
    SALUS_STANDIN_ENTER(launch_cooperative, kContext);
    return launch_kernel(entered, kernel,
                         {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0}, parameters,
                         nullptr);
}

}  // namespace salus::standin
