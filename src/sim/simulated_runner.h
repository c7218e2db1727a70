// A simulated runner: `salus run` as the service sees it, with a connection of its own.
#pragma once

#include "shell/ports.h"

namespace salus::sim {

struct SimulatedRunner {
    shell::ConnectionId connection = 0;
    bool connected = false;  ///< the service knows its job, and has not seen it hang up
    bool waits = false;      ///< it waits for Start
    bool started = false;    ///< it has started its job's process
    bool gone = false;
};

}  // namespace salus::sim
