// What the service remembers of runs. Trouble with the file is logged, and costs no more than what would have been known.
#pragma once

#include <memory>
#include <string>

#include "history/store.h"

namespace salus::service {

/// Of a job whose clients showed `a` and `b`: as long as the longest of them, as large as the largest.
history::Figures whole_of(const history::Figures& a, const history::Figures& b);

class RunHistory {
public:
    explicit RunHistory(const std::string& state_directory);

    /// What earlier runs showed; zeros: nothing is known.
    history::Figures recall(unsigned uid, history::CommandKeys keys);
    /// The run ends now.
    void record(history::Run run);

private:
    std::unique_ptr<history::Store> store_;
};

}  // namespace salus::service
