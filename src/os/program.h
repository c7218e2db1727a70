// Finds programs, starts them as processes, and waits for them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salus::os {

/// Its path, searched as the shell does, then in the other directories; empty: not found.
std::string find_program(std::string_view name, std::initializer_list<std::string_view> other_directories = {});

/// NAME=value: the settings and this process's environment, except names that begin with `left_out`.
std::vector<std::string> environment_with(std::vector<std::string> settings, std::string_view left_out = {});

struct Launch {
    std::vector<std::string> command;  ///< the program is looked for in PATH unless it has a slash
    std::vector<std::string> environment;
    int input = -1;   ///< -1: ours
    int output = -1;  ///< also for errors; -1: ours
    /// What the new process leads. A group can be ended as a whole; a session also gets no signals from our terminal.
    enum class Leads { kGroup, kSession } leads = Leads::kGroup;
    /// The new process inherits none of our other descriptors, and neither blocks nor ignores signals that we do.
    bool fresh = false;
};
/// The pid of the new process; the caller must wait for it. An error if the program cannot be executed.
Result<int> spawn(const Launch& launch);

/// How a child ended.
struct Exit {
    int pid = 0;
    bool by_signal = false;
    int number = 0;  ///< status or signal

    bool well() const { return !by_signal && number == 0; }
};
inline constexpr int kAnyChild = -1;
/// Nothing if it runs. A child that has ended is reaped: from then on its pid may be reused.
std::optional<Exit> reap(int child);
/// Waits for its end and reaps it. Nothing if it is not a child, or if a signal came first (errno is EINTR).
std::optional<Exit> wait_for_end(int child);
/// As reap(), but without reaping: the pid stays the child's.
std::optional<Exit> look_for_end(int child);

}  // namespace salus::os
