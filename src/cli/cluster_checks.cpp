// The checks of `salus doctor --cluster`: docs/cluster.md says what an administrator sets up.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/service_link.h"
#include "cli/shares.h"
#include "history/profiles.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::cli {
namespace {

constexpr const char* kPlugin = "spank_salus.so";

/// Jobs of all users must find and be able to use it.
Finding service_of_node() {
    const os::Service service = find_service_on_its_way();
    if (!service.connection) return {"cluster service", false, service.connection.error()};
    struct ::stat socket {};
    const bool is_for_all = ::stat(service.at.c_str(), &socket) == 0 && (socket.st_mode & S_IWOTH) != 0;
    if (!is_for_all) return {"cluster service", false, service.at + " is not for all users, as that of salusd.service is"};
    return {"cluster service", true, service.at + ", for all users"};
}

std::string slurm_directory() {
    const char* named = std::getenv("SLURM_CONF");
    return named && *named ? std::filesystem::path(named).parent_path().string() : "/etc/slurm";
}

/// The lines without comments; none if there is no such file.
std::vector<std::string> lines_of(const std::string& file) {
    const Result<std::string> text = os::read_file(file);
    std::vector<std::string> lines;
    if (!text) return lines;
    for (const std::string_view line : split(text.value(), '\n')) {
        const std::string_view said = trim(line.substr(0, line.find('#')));
        if (!said.empty()) lines.emplace_back(said);
    }
    return lines;
}

Finding plugin_of(const std::string& plugstack) {
    for (const std::string& line : lines_of(plugstack)) {
        for (const std::string_view word : split(line, ' ')) {
            if (!word.ends_with(kPlugin)) continue;
            const bool there = ::access(std::string(word).c_str(), R_OK) == 0;
            return {"Slurm plugin", there,
                    there ? std::string(word) : fmt::format("{} is not there; docs/cluster.md has the line for gcc", word)};
        }
    }
    return {"Slurm plugin", false, plugstack + " does not name " + kPlugin + "; salus slurm config prints the line"};
}

/// The number after `Count=`; nothing if the line does not hand out shards.
std::optional<std::int64_t> shards_in(const std::string& line) {
    std::optional<std::int64_t> count;
    bool of_shards = false;
    for (const std::string_view word : split(line, ' ')) {
        of_shards = of_shards || word == "Name=shard";
        if (word.starts_with("Count=")) count = parse_integer(word.substr(6));
    }
    return of_shards ? count : std::nullopt;
}

/// If they were more than what the service has, jobs would wait at the service instead of in Slurm's queue.
Finding shards_of(const std::string& gres) {
    const Result<Status> status = ask_status();
    std::int64_t most = 0;
    for (const std::string& line : lines_of(gres)) most = std::max(most, shards_in(line).value_or(0));
    if (most == 0) return {"Slurm shards", false, gres + " hands out no shards; salus slurm config prints the lines"};
    if (!status) return {"Slurm shards", false, status.error()};
    Bytes largest;
    for (const DeviceStatus& device : devices_of(status.value().service)) largest = std::max(largest, device.capacity);
    const Bytes handed_out{most * kShard.count};
    const bool ok = handed_out < largest;
    return {"Slurm shards", ok,
            ok ? fmt::format("{} of {} on a GPU; the rest is the lane", format_bytes(handed_out), format_bytes(largest))
               : fmt::format("{} on a GPU, and the service has {}: no lane is left", format_bytes(handed_out),
                             format_bytes(largest))};
}

Finding profiles_at(const std::string& file) {
    if (::access(file.c_str(), F_OK) != 0)
        return {"Slurm profiles", true, "no " + file + ": jobs get the shards that they ask for"};
    const Result<std::string> text = os::read_file(file);
    if (!text) return {"Slurm profiles", false, text.error()};
    const Result<history::Profiles> read = history::read_profiles(text.value());
    if (!read) return {"Slurm profiles", false, file + ": " + read.error()};
    return {"Slurm profiles", true, fmt::format("{} commands in {}", read.value().all.size(), file)};
}

Finding ray() {
    const std::string file = own_directory() + "/../share/salus/ray/salus_ray.py";
    const std::string place = std::filesystem::path(file).lexically_normal().string();
    const bool ok = ::access(place.c_str(), R_OK) == 0;
    return {"Ray", ok, ok ? place + " belongs on the PYTHONPATH of drivers" : place + " is missing"};
}

}  // namespace

std::vector<Finding> check_cluster() {
    std::vector<Finding> findings = {service_of_node()};
    const std::string directory = slurm_directory();
    if (os::find_program("slurmd", {"/usr/sbin", "/usr/local/sbin"}).empty()) {
        findings.push_back({"Slurm", true, "no slurmd here"});
    } else {
        findings.push_back(plugin_of(directory + "/plugstack.conf"));
        findings.push_back(shards_of(directory + "/gres.conf"));
        findings.push_back(profiles_at(directory + "/salus_profiles.jsonl"));
    }
    findings.push_back(ray());
    return findings;
}

}  // namespace salus::cli
