#include "service/roster.h"

#include <fstream>
#include <sstream>
#include <string_view>

#include "os/file.h"
#include "service/log.h"

namespace salus::service {

namespace {

constexpr std::string_view kOfDevice = "# device ";

}  // namespace

bool write_roster(const std::string& path, const std::string& device, const std::vector<RosterEntry>& entries) {
    std::ostringstream text;
    if (!device.empty()) text << kOfDevice << device << '\n';
    text << "# pid start-time lane lane-bytes persistent-bytes\n";
    for (const RosterEntry& e : entries) {
        text << e.process.pid << ' ' << e.process.start_time << ' ' << e.lane << ' ' << e.lane_size.count << ' '
             << e.persistent.count << '\n';
    }
    const Result<os::Written> written = os::replace_file_at_once(path, text.str());
    if (!written) log(LogLevel::kWarning, "cannot write the roster: {}", written.error());
    return written.ok();
}

std::vector<RosterEntry> read_roster(const std::string& path, const std::string& device) {
    std::vector<RosterEntry> entries;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kOfDevice) && std::string_view(line).substr(kOfDevice.size()) != device) return {};
        std::istringstream fields(line);
        RosterEntry e;
        if (!(fields >> e.process.pid >> e.process.start_time >> e.lane >> e.lane_size.count >> e.persistent.count))
            continue;
        const auto can_be = [](Bytes bytes) { return bytes >= Bytes{} && bytes <= gibibytes(std::int64_t{1} << 20); };
        if (e.process.pid > 0 && can_be(e.lane_size) && can_be(e.persistent)) entries.push_back(e);
    }
    return entries;
}

}  // namespace salus::service
