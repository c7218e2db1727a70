#include "service/http.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace salus::service::http {
namespace {

constexpr auto kReasons = std::to_array<std::pair<int, std::string_view>>({{200, "OK"},
                                                                           {400, "Bad Request"},
                                                                           {403, "Forbidden"},
                                                                           {404, "Not Found"},
                                                                           {405, "Method Not Allowed"},
                                                                           {431, "Request Header Fields Too Large"}});

bool is_name_of_method(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string in_lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower;
}

std::string without_port(std::string_view host) {
    const std::size_t colon = host.rfind(':');
    const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
    return in_lower_case(has_port ? host.substr(0, colon) : host);
}

/// Takes the first line off.
std::string_view next_line(std::string_view& text) {
    const std::size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    return line;
}

/// False: it is no first line of a request.
bool read_first_line(std::string_view line, Request& request) {
    const auto words = split(line, ' ');
    if (words.size() != 3 || !is_name_of_method(words[0]) || !words[1].starts_with('/') || !words[2].starts_with("HTTP/1."))
        return false;
    request.method = words[0];
    request.path = words[1].substr(0, words[1].find('?'));
    return true;
}

}  // namespace

Parsed parse(std::string_view received) {
    const std::size_t end = received.find("\r\n\r\n");
    if (std::min(end, received.size()) > kHeadMax) return {Parsed::Kind::kTooLong, {}};
    if (end == std::string_view::npos) return {};
    std::string_view head = received.substr(0, end);
    Parsed parsed{Parsed::Kind::kRequest, {}};
    const Parsed nonsense{Parsed::Kind::kNonsense, {}};
    if (!read_first_line(next_line(head), parsed.request)) return nonsense;
    while (!head.empty()) {
        const std::string_view line = next_line(head);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) return nonsense;
        if (in_lower_case(line.substr(0, colon)) != "host") continue;
        if (parsed.request.host) return nonsense;  // which of the two?
        parsed.request.host = without_port(trim(line.substr(colon + 1)));
    }
    return parsed;
}

std::string answer(int status, std::string_view type, std::string_view body, std::string_view more) {
    const auto reason = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
    return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}", status,
                       reason == kReasons.end() ? "" : reason->second, type, body.size(), more, body);
}

bool is_loopback_name(std::string_view host) {
    const bool is_number =
        !host.empty() && std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
    return host == "localhost" || host == "[::1]" || (is_number && host.starts_with("127."));
}

}  // namespace salus::service::http
