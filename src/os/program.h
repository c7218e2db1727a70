// Programs: found, started as processes of their own, and waited for.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salus::os {

/// Where the shell would find it, then in the other directories; empty: nowhere.
std::string find_program(std::string_view name, std::initializer_list<std::string_view> other_directories = {});

/// NAME=value: the settings, and what else is in this process's environment, without names that begin with `left_out`.
std::vector<std::string> environment_with(std::vector<std::string> settings, std::string_view left_out = {});

struct Launch {
    std::vector<std::string> command;  ///< the program is looked for in PATH unless it has a slash
    std::vector<std::string> environment;
    int input = -1;   ///< -1: ours
    int output = -1;  ///< and for errors; -1: ours
    /// Of its own: a group can be ended as a whole; a session also gets no signals from our terminal.
    enum class Leads { kGroup, kSession } leads = Leads::kGroup;
    /// It has none of our other descriptors, and no signal that we block or ignore.
    bool fresh = false;
};
/// The process, which somebody has to wait for. An error if the program cannot be executed.
Result<int> spawn(const Launch& launch);

/// How a child ended.
struct Exit {
    int pid = 0;
    bool by_signal = false;
    int number = 0;  ///< status or signal

    bool well() const { return !by_signal && number == 0; }
};
inline constexpr int kAnyChild = -1;
/// Nothing if it runs. A child that has ended is reaped: its number may be another's from here on.
std::optional<Exit> reap(int child);
/// Waits for its end, and reaps it. Nothing if it is no child, or (errno is EINTR) a signal came first.
std::optional<Exit> wait_for_end(int child);
/// The same as reap(), but the number stays the child's.
std::optional<Exit> look_for_end(int child);

}  // namespace salus::os
