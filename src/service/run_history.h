// The service's access to the history of runs. Errors of the file are logged; the service then runs without these figures.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "history/store.h"

namespace salus::service {

/// The figures of a job from those of its clients: as long as the longest client, as large as the largest.
history::Figures whole_of(const history::Figures& a, const history::Figures& b);

class RunHistory {
public:
    explicit RunHistory(const std::string& state_directory);

    /// Figures of earlier runs; zeros: nothing is known.
    history::Figures recall(unsigned uid, CommandKeys keys);
    /// What is known of this command beside others; it is `first` of each pair.
    std::vector<history::CommandPair> pairs_with(unsigned uid, CommandKeys keys);
    /// Whether MPS was measured to help this user's jobs.
    bool mps_helps(unsigned uid);
    /// Records two that ran at once, as measured now.
    void record(history::CommandPair pair);
    /// The records of one user, or of all.
    Result<std::vector<history::Record>> list(std::optional<unsigned> uid);
    /// Forgets commands that contain `part`. Returns their number.
    Result<std::vector<history::Usage>> usage(std::optional<unsigned> uid, double since_s);
    Result<std::uint64_t> clear(std::optional<unsigned> uid, std::string_view part);
    /// Records a run that ends now.
    void record(history::Run run);
    /// Records one that ended while no service ran, so that its figures and use are not known.
    void record_untold(history::Run run);

private:
    void write(const history::Run& run);

    std::unique_ptr<history::Store> store_;
};

}  // namespace salus::service
