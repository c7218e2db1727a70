#include "web/door.h"

#include <cstddef>
#include <utility>

namespace salus::web {

bool same_secret(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
    const volatile unsigned seen = difference;  // or the compiler could stop at the first
    return seen == 0;
}

Door::Door(std::string token, int port) : token_(std::move(token)), port_(std::to_string(port)) {}

bool Door::is_this_host(std::string_view host) const { return host == "127.0.0.1:" + port_ || host == "localhost:" + port_; }

Verdict Door::judge(const Asked& asked) const {
    if (!is_this_host(asked.host)) return {403, {}, "this address is not served here\n"};
    const bool foreign_site = !asked.fetch_site.empty() && asked.fetch_site != "same-origin" && asked.fetch_site != "none";
    const bool foreign_origin = !asked.origin.empty() && asked.origin != "http://" + asked.host;
    // A link in a file or in a message leads here, too: then the browser says "none" or "cross-site", and asks for the page
    // alone.
    const std::string_view path = asked.path;
    const bool has_token = path.size() > token_.size() + 1 && path.front() == '/' && path[token_.size() + 1] == '/' &&
                           same_secret(path.substr(1, token_.size()), token_);
    if (!has_token) return {403, {}, "the address lacks its token: use the one that salus web printed\n"};
    const std::string page(path.substr(token_.size() + 2));
    if (foreign_origin) return {403, {}, "another page may not ask\n"};
    if (foreign_site && (asked.is_post || !page.empty())) return {403, {}, "another page may not ask\n"};
    if (!asked.is_post) return {200, page, {}};
    if (asked.origin.empty()) return {403, {}, "a request that changes something must name its origin\n"};
    if (asked.content_type != "application/json") return {415, {}, "only JSON is taken\n"};
    return {200, page, {}};
}

std::string Door::address() const { return "http://127.0.0.1:" + port_ + "/" + token_ + "/"; }

}  // namespace salus::web
