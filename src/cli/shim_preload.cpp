#include "cli/shim_preload.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "cli/service_link.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::cli {
namespace {

/// Runs `true` with it. The loader complains on standard error, and goes on without: so many bytes are said, or nothing if
/// the program fails.
std::optional<std::int64_t> complaints_with(const std::string& preload) {
    os::Descriptor output = os::make_memory_file("salus-preload");
    os::Launch launch;
    launch.command = {"true"};
    launch.environment = os::environment_with({"LD_PRELOAD=" + preload}, "LD_PRELOAD=");
    launch.output = output.get();
    const Result<int> child = os::spawn(launch);
    if (!child) return 0;  // there is no such program: nothing is known against it
    std::optional<os::Exit> end = os::wait_for_end(child.value());
    while (!end && errno == EINTR) end = os::wait_for_end(child.value());
    struct ::stat status {};
    if (!end || !end->well() || ::fstat(output.get(), &status) != 0) return std::nullopt;
    return status.st_size;
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
    const std::string user = before ? before : "";
    const std::string preload = user.empty() ? path.string() : user + ":" + path.string();
    const auto complaints = complaints_with(preload);
    // What the loader says of the user's own libraries is not about ours.
    const bool ok = complaints && (*complaints == 0 || (!user.empty() && complaints == complaints_with(user)));
    if (!ok) return Error{path.string() + " cannot be preloaded here"};
    return preload;
}

}  // namespace salus::cli
