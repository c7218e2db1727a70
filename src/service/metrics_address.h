// Where the metrics are served: the option `metrics`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace salus::service {

struct MetricsAddress {
    enum class Kind : std::uint8_t { kOff, kLoopback, kUnix };
    Kind kind = Kind::kOff;
    std::string where;       ///< the address, such as "127.0.0.1" or "::1"; the path
    std::uint16_t port = 0;  ///< of a loopback address
};

/// "off", "127.0.0.1:9464", "[::1]:9464" or "unix:/path". The error is one line: other machines must not read the metrics.
Result<MetricsAddress> metrics_address_from(std::string_view text);

}  // namespace salus::service
