// Runs checks in child processes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace salus::client::test {

/// Waits for the child; true if it exits with 0.
inline bool succeeds(pid_t child) {
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Runs `check` in a child process and returns its result. `forks` is told of the fork: a Memory or a ProcessClient.
template <typename Forks, typename Check>
bool in_a_child(Forks& forks, const Check& check) {
    forks.before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(30);  // ends what hangs
        forks.after_fork_in_child();
        ::_exit(check() ? 0 : 1);
    }
    forks.after_fork_in_parent();
    return succeeds(child);
}

/// ... without telling anything of the fork.
template <typename Check>
bool in_a_child(const Check& check) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(30);
        ::_exit(check() ? 0 : 1);
    }
    return succeeds(child);
}

}  // namespace salus::client::test
