#include "cli/shim_preload.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "cli/service_link.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::cli {
namespace {

/// Runs `true` with it. The loader complains on standard error, and goes on without.
bool can_be_preloaded(const std::string& preload) {
    os::Descriptor output = os::make_memory_file("salus-preload");
    os::Launch launch;
    launch.command = {"true"};
    launch.environment = os::environment_with({"LD_PRELOAD=" + preload}, "LD_PRELOAD=");
    launch.output = output.get();
    const Result<int> child = os::spawn(launch);
    if (!child) return true;  // there is no such program: nothing is known against it
    std::optional<os::Exit> end = os::wait_for_end(child.value());
    while (!end && errno == EINTR) end = os::wait_for_end(child.value());
    struct ::stat status {};
    return end && end->well() && ::fstat(output.get(), &status) == 0 && status.st_size == 0;
}

}  // namespace

Result<std::string> preload_with_shim() {
    const std::filesystem::path path = std::filesystem::path(own_directory()).parent_path() / "lib" / "libsalus-cuda.so";
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return Error{path.string() + " is missing"};
    if (path.string().find_first_of(" :") != std::string::npos)
        return Error{path.string() + " cannot be preloaded: its name has a blank or a colon"};
    const char* before = std::getenv("LD_PRELOAD");
    // Last: libraries that look for the next definition of a function find the shim's.
    const std::string preload = before && *before ? std::string(before) + ":" + path.string() : path.string();
    if (!can_be_preloaded(preload)) return Error{path.string() + " cannot be preloaded here"};
    return preload;
}

}  // namespace salus::cli
