// The little of HTTP/1.1 that serving one page takes: the head of a request in, an answer out. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace salus::service::http {

/// A longer head is refused.
inline constexpr std::size_t kHeadMax = 8192;

struct Request {
    std::string method;
    std::string path;                 ///< without what follows a '?'
    std::optional<std::string> host;  ///< as the client names the server, without the port
};

struct Parsed {
    enum class Kind { kUnfinished, kRequest, kNonsense, kTooLong } kind = Kind::kUnfinished;
    Request request;
};
/// What a client has sent so far.
Parsed parse(std::string_view received);

/// The whole answer; the connection closes after it. `more`: further lines of the head, each with its end.
std::string answer(int status, std::string_view type, std::string_view body, std::string_view more = {});

/// Whether a request for this machine's loopback address may name the server so. A page in a browser whose own name leads to
/// the loopback address would name it otherwise.
bool is_loopback_name(std::string_view host);

}  // namespace salus::service::http
