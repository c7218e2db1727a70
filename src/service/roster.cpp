#include "service/roster.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "os/file.h"
#include "os/process.h"
#include "service/log.h"

namespace salus::service {

bool write_roster(const std::string& path, const std::vector<RosterEntry>& entries) {
    std::ostringstream text;
    text << "# pid start-time lane lane-bytes persistent-bytes\n";
    for (const RosterEntry& e : entries) {
        text << e.pid << ' ' << e.start_time << ' ' << e.lane << ' ' << e.lane_size.count << ' ' << e.persistent.count
             << '\n';
    }
    const Result<os::Written> written = os::replace_file(path, text.str());
    if (!written) log(LogLevel::kWarning, "the roster is not kept: {}", written.error());
    return written.ok();
}

std::vector<RosterEntry> read_roster(const std::string& path) {
    std::vector<RosterEntry> entries;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        RosterEntry e;
        if (!(fields >> e.pid >> e.start_time >> e.lane >> e.lane_size.count >> e.persistent.count)) continue;
        const auto can_be = [](Bytes bytes) { return bytes >= Bytes{} && bytes <= gibibytes(std::int64_t{1} << 20); };
        if (e.pid > 0 && can_be(e.lane_size) && can_be(e.persistent)) entries.push_back(e);
    }
    return entries;
}

bool is_alive(const RosterEntry& entry) {
    return os::start_time_of(entry.pid) == entry.start_time && !os::has_ended(entry.pid);
}

Bytes held_by(const std::vector<RosterEntry>& entries) {
    Bytes sum;
    std::map<std::uint32_t, Bytes> lanes;
    for (const RosterEntry& entry : entries) {
        sum += entry.persistent;
        Bytes& size = lanes[entry.lane];
        size = std::max(size, entry.lane_size);
    }
    for (const auto& [lane, size] : lanes) sum += size;
    return sum;
}

}  // namespace salus::service
