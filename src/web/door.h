// Who is let in: decides on each request of the web page before anything else looks at it. Pure.
//
// Note [The door]
// Any program of this machine reaches a port on 127.0.0.1, and so does any page in the user's browser. The way in is a token
// in the path, which only the user knows. Two more checks hold even if the token leaks into a page of somebody else: the
// Host must be this address (a name of theirs that resolves to 127.0.0.1 is another host), and a browser that says where a
// request comes from must name this page. What changes something must say so, and be JSON, which a form cannot send.
#pragma once

#include <string>
#include <string_view>

namespace salus::web {

/// What a request says; empty: it does not.
struct Asked {
    bool is_post = false;
    std::string path;  ///< with the leading slash, without a query
    std::string host;
    std::string origin;
    std::string fetch_site;  ///< Sec-Fetch-Site
    std::string content_type;
};

struct Verdict {
    int status = 200;      ///< of HTTP; 200: come in
    std::string page;      ///< if so: the path below the token, without a slash before it
    std::string_view why;  ///< if not: for the user; it never says what would have been right
};

class Door {
public:
    Door(std::string token, int port);

    Verdict judge(const Asked& asked) const;
    /// Of the page; the token is in it.
    std::string address() const;

private:
    bool is_this_host(std::string_view host) const;

    std::string token_;
    std::string port_;
};

/// Takes as long whatever the characters are, so that nobody finds the token letter by letter.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace salus::web
