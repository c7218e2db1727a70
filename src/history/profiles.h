// Profiles: what commands have needed, from the histories of several nodes, for a cluster's engine to place jobs by.
//
// The text has a line of JSON for each command, and one for what a node's GPUs have. So an engine reads it with what it has,
// several texts are joined by cat, and the lines of nodes that write at once may come in any order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "history/store.h"

namespace salus::history {

struct Profile {
    std::string name;  ///< of the script or program, as the job is called
    Record record;
};

struct Profiles {
    /// Memory of each GPU for jobs, and of it what is set aside for what jobs need only inside an iteration.
    struct Shares {
        Bytes capacity, lane;
    };
    std::optional<Shares> shares;
    std::vector<Profile> all;
};

/// Those of a node, from its history. Leaves out commands whose memory nobody has seen.
std::vector<Profile> profiles_of(const std::vector<Record>& records);

/// Adds what another node knows. Of each user's command, the latest run tells how long it takes, and P and T are the most
/// that any run has needed. GPUs count as the smallest. Adding the same again changes nothing.
void merge(Profiles& into, const Profiles& other);

/// Reads what text_of() wrote, also of several nodes. An error is one line that names the line.
Result<Profiles> read_profiles(std::string_view text);
/// The same profiles make the same text.
std::string text_of(const Profiles& profiles);

}  // namespace salus::history
