// A simulated runner: `salus run` as it is to the service, with a connection of its own.
#pragma once

#include "shell/ports.h"

namespace salus::sim {

struct SimulatedRunner {
    shell::ConnectionId connection = 0;
    bool connected = false;  ///< the service knows of its job, and has not seen it hang up
    bool waits = false;      ///< for Start
    bool started = false;    ///< its job's process
    bool gone = false;
};

}  // namespace salus::sim
