#include "cli/checks.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/job_environment.h"
#include "cli/service_link.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/places.h"
#include "os/process.h"
#include "os/program.h"
#include "os/trust.h"
#include "os/user.h"

namespace salus::cli {
namespace {

/// Only its version: the findings below show what it lacks, also where a distribution has added that to an older one.
Finding kernel() {
    utsname name{};
    ::uname(&name);
    return {"kernel", true, name.release};
}

Finding memory_files() {
    const os::Descriptor file = os::make_memory_file("salus-doctor");
    return {"memory files", static_cast<bool>(file), file ? "memfd with seals" : "memfd_create fails"};
}

Finding process_descriptors() {
    const os::Descriptor self = os::open_pidfd(::getpid());
    return {"process descriptors", static_cast<bool>(self),
            self ? "pidfd" : "pidfd_open fails: Linux 5.3 or newer is needed"};
}

Finding memory() {
    struct sysinfo info {};
    ::sysinfo(&info);
    const Bytes total{static_cast<std::int64_t>(info.totalram * info.mem_unit)};
    return {"host memory", true, format_bytes(total) + "; jobs may use 80 % of it (change with --capacity)"};
}

Finding descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const bool ok = limit.rlim_cur >= 1024;
    return {"open files", ok, fmt::format("limit {}{}", limit.rlim_cur, ok ? "" : ": each job needs four")};
}

/// Where a job on the host device puts paged-out memory.
Finding paging() {
    const char* named = std::getenv("SALUS_PAGE_DIR");
    const std::string place = named && *named ? named : "/var/tmp";
    std::error_code error;
    const auto space = std::filesystem::space(place, error);
    if (error) return {"paging", false, place + " cannot be used: " + error.message()};
    if (::access(place.c_str(), W_OK) != 0) return {"paging", false, place + " cannot be written to"};
    return {"paging", true, format_bytes({static_cast<std::int64_t>(space.available)}) + " free in " + place};
}

/// What is wrong with the file, in the words of the service; empty: nothing.
std::string complaint_about(const std::string& file) {
    const os::Descriptor said = os::make_memory_file("salus-doctor");
    os::Launch launch{{own_directory() + "/salusd", "--check", "--config", file}, os::environment_with({})};
    launch.output = said.get();
    const Result<int> child = os::spawn(launch);
    if (!child) return child.error();
    auto end = os::wait_for_end(child.value());
    while (!end && errno == EINTR) end = os::wait_for_end(child.value());
    if (end && end->well()) return {};
    std::array<char, 512> text{};
    const ssize_t size = ::pread(said.get(), text.data(), text.size(), 0);
    const std::string all(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return all.empty() ? file + ": salusd cannot read it" : all.substr(0, all.find('\n'));
}

/// That of this user's service. That of the machine's is its administrator's.
Finding configuration() {
    const std::string file = os::user_directory("XDG_CONFIG_HOME", "/.config") + "/salusd.toml";
    if (::access(file.c_str(), F_OK) != 0) return {"configuration", true, "the defaults; " + file + " would change them"};
    const std::string complaint = complaint_about(file);
    return {"configuration", complaint.empty(), complaint.empty() ? file : complaint};
}

/// If the machine's service is for a group that this user is not in; else empty.
std::string machines_is_for_others() {
    struct ::stat directory {};
    const std::string place = std::filesystem::path(os::kSystemSocket).parent_path().string();
    const bool closed = ::access(os::kSystemSocket, W_OK) != 0 && errno == EACCES;
    return closed && ::stat(place.c_str(), &directory) == 0
               ? fmt::format("; the machine's service is for members of group {}", os::name_of_group(directory.st_gid))
               : "";
}

/// Where jobs look for the service, and whether this user may use it.
Finding socket_file() {
    const os::Service service = find_service_on_its_way();
    const bool is_own = service.whose == os::Whose::kOwn;
    const std::string whose = is_own ? "yours, " : service.whose == os::Whose::kMachines ? "the machine's, " : "";
    const std::string place = whose + service.socket;
    // Not of the socket itself: everybody may write to that of a service for all users.
    const std::string directory = std::filesystem::path(service.socket).parent_path();
    if (const auto why = os::why_distrusted(directory)) return {"socket", false, *why};
    const bool usable = ::access(service.socket.c_str(), W_OK) == 0;
    if (!usable && errno == EACCES) return {"socket", false, place + ": you may not use it"};
    const std::string missing = is_own ? ", which the service will make" : ", where no service listens";
    return {"socket", true, place + (usable ? "" : missing) + (is_own ? machines_is_for_others() : "")};
}

Finding state_directory() {
    const std::string path = os::default_state_directory();
    if (const auto why = os::why_distrusted(path)) return {"state directory", false, *why};
    const bool there = ::access(path.c_str(), F_OK) == 0;
    if (there && ::access(path.c_str(), W_OK) != 0) return {"state directory", false, path + " cannot be written to"};
    return {"state directory", true, path + (there ? "" : ", which the service will make")};
}

/// Jobs in a container need the service's socket in it.
Finding containers() {
    const bool docker = ::access("/.dockerenv", F_OK) == 0;
    const bool podman = ::access("/run/.containerenv", F_OK) == 0;
    const bool apptainer = std::getenv("APPTAINER_CONTAINER") || std::getenv("SINGULARITY_CONTAINER");
    if (docker || podman || apptainer)
        return {"containers", true,
                fmt::format("this is one ({}): it shares with jobs outside if the service's socket is mounted in it",
                            docker   ? "docker"
                            : podman ? "podman"
                                     : "apptainer")};
    std::string found;
    for (const char* runtime : {"docker", "podman", "apptainer"}) {
        if (!os::find_program(runtime).empty()) found += (found.empty() ? "" : ", ") + std::string(runtime);
    }
    return {"containers", true,
            "this is none; " + (found.empty() ? "no docker, podman or apptainer in PATH" : found + " in PATH")};
}

Finding program(const char* name) {
    const std::string path = own_directory() + "/" + name;
    const bool ok = ::access(path.c_str(), X_OK) == 0;
    return {name, ok, ok ? path : path + " is missing"};
}

Finding library() {
    const std::string path = std::filesystem::path(own_directory()).parent_path().string() + "/lib/libsalus.so.1";
    const bool ok = ::access(path.c_str(), R_OK) == 0;
    return {"client library", ok, ok ? path : path + " is missing"};
}

/// Without it, Python jobs run but do not share.
Finding adaptor() {
    const Result<Adaptor> found = find_adaptor();
    return {"Python adaptor", found.ok(), found ? found.value().inject : found.error()};
}

Finding service() {
    const os::Service found = find_service_on_its_way();
    const bool is_own = found.whose == os::Whose::kOwn;
    if (!found.connection && is_own) return {"service", true, found.connection.error() + "; `salus run` starts one"};
    const Result<Status> answer = ask_status();
    if (!answer) return {"service", false, answer.error() + "; jobs wait for it, and only its administrator starts it"};
    const Status& status = answer.value();
    return {"service", true,
            fmt::format("runs at {}, policy {}, {} jobs", status.service.socket, status.service.policy, status.jobs.size())};
}

}  // namespace

std::vector<Finding> check_machine() {
    return {kernel(), memory_files(), process_descriptors(), memory(), descriptors(), paging()};
}

std::vector<Finding> check_salus() {
    return {program("salusd"), program("salus-job"), library(),    adaptor(), configuration(),
            state_directory(), socket_file(),        containers(), service()};
}

}  // namespace salus::cli
