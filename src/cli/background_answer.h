// What a program prints, for those who must not wait for it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"

namespace salus::cli {

class BackgroundAnswer {
public:
    /// A newer answer is not sought before the last one is this old.
    static constexpr Duration kFresh = seconds(5);

    explicit BackgroundAnswer(std::vector<std::string> command) : command_(std::move(command)) {}

    /// Starts the program unless it runs already, or has just answered.
    void want(Instant now);
    /// Takes the answer if the program has ended; never waits.
    void look(Instant now);
    /// The last one: what it printed, or its last line if it failed. Nothing: there is none yet.
    const std::optional<Result<std::string>>& last() const { return last_; }

private:
    std::vector<std::string> command_;
    int child_ = 0;  ///< 0: none runs
    os::Descriptor printed_;
    Instant answered_{};
    std::optional<Result<std::string>> last_;
};

}  // namespace salus::cli
