// What changes when a service reads its configuration again. Pure.
#pragma once

#include <string>

#include "service/options.h"

namespace salus::service {

struct Reload {
    Options options;   ///< of the service from now on
    std::string line;  ///< says what has changed, and what will with the next start
};

/// `read`: the options that the service would start with. What it cannot change while it runs stays. A policy that was set
/// by `salus policy` stays, too, until another one is configured.
Reload reload_from(const Options& now, Options read);

}  // namespace salus::service
