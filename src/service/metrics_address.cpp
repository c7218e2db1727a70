#include "service/metrics_address.h"

#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "os/socket.h"

namespace salus::service {
namespace {

std::optional<std::uint16_t> port_from(std::string_view text) {
    const auto number = parse_integer(text);
    if (!number || *number < 1 || *number > 65535) return std::nullopt;
    return static_cast<std::uint16_t>(*number);
}

}  // namespace

Result<MetricsAddress> metrics_address_from(std::string_view text) {
    constexpr std::string_view kUnix = "unix:";
    const Error wrong{fmt::format("must be off, 127.0.0.1:PORT, [::1]:PORT or unix:/PATH; got '{}'", text)};
    if (text == "off") return MetricsAddress{};
    if (text.starts_with(kUnix)) {
        const std::string path(text.substr(kUnix.size()));
        if (!path.starts_with('/')) return wrong;
        if (path.size() > os::kSocketPathMax)
            return Error{
                fmt::format("the path of the socket must have at most {} bytes; got {}", os::kSocketPathMax, path.size())};
        return MetricsAddress{MetricsAddress::Kind::kUnix, path};
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return wrong;
    const auto port = port_from(text.substr(colon + 1));
    std::string host(text.substr(0, colon));
    if (!port) return wrong;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string::npos) return wrong;
    if (!os::is_loopback(host))
        return Error{fmt::format(
            "must be a loopback address, which other machines cannot reach: 127.0.0.1:{0} or [::1]:{0}; got '{1}'", *port,
            text)};
    return MetricsAddress{MetricsAddress::Kind::kLoopback, host, *port};
}

}  // namespace salus::service
