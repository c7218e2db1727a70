#include "web/server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <list>
#include <utility>
#include <vector>

#include "base/check.h"
#include "os/clock.h"
#include "web/assets.h"

namespace salus::web {
namespace {

constexpr std::size_t kHeadersMax = 16 << 10;
constexpr std::size_t kBodyMax = 4 << 10;
/// A viewer that has not read this much yet is dropped. Browsers come again, and are told everything.
constexpr std::size_t kUnreadMax = 4 << 20;
/// For a request to arrive, and for its answer to be read.
constexpr int kPatienceS = 20;

constexpr std::array<std::pair<const char*, const char*>, 6> kHeaders = {
    {{"Content-Security-Policy",
      "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"},
     {"X-Content-Type-Options", "nosniff"},
     {"X-Frame-Options", "DENY"},
     {"Referrer-Policy", "no-referrer"},
     {"Cross-Origin-Resource-Policy", "same-origin"},
     {"Cache-Control", "no-store"}}};

timeval timeval_of(Duration time) { return {time.ns / 1'000'000'000, time.ns % 1'000'000'000 / 1000}; }

std::string header(evhttp_request* request, const char* name) {
    const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
    return value ? value : "";
}

Asked asked_in(evhttp_request* request) {
    const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
    const char* path = uri ? evhttp_uri_get_path(uri) : nullptr;
    return {.is_post = evhttp_request_get_command(request) == EVHTTP_REQ_POST,
            .path = path ? path : "",
            .host = header(request, "Host"),
            .origin = header(request, "Origin"),
            .fetch_site = header(request, "Sec-Fetch-Site"),
            .content_type = header(request, "Content-Type")};
}

void add_headers(evhttp_request* request, const std::string& type) {
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    for (const auto& [name, value] : kHeaders) evhttp_add_header(headers, name, value);
    evhttp_add_header(headers, "Content-Type", type.c_str());
}

void send(evhttp_request* request, const Reply& reply) {
    add_headers(request, reply.type);
    evbuffer* body = evbuffer_new();
    evbuffer_add(body, reply.body.data(), reply.body.size());
    evhttp_send_reply(request, reply.status, nullptr, body);
    evbuffer_free(body);
}

std::string body_of(evhttp_request* request) {
    evbuffer* input = evhttp_request_get_input_buffer(request);
    std::string body(evbuffer_get_length(input), '\0');
    evbuffer_copyout(input, body.data(), body.size());
    return body;
}

/// Server-sent events.
std::string text_of(const std::vector<News>& news) {
    std::string text;
    for (const News& one : news) text += "event: " + one.name + "\ndata: " + one.data + "\n\n";
    return text;
}

}  // namespace

struct Server::Loop {
    /// Somebody who looks at the page; the request's answer never ends.
    struct Viewer {
        Loop* loop = nullptr;
        evhttp_request* request = nullptr;
    };

    Loop(os::Descriptor listener, Door its_door, Site& its_site) : door(std::move(its_door)), site(its_site) {
        base = event_base_new();
        SALUS_CHECK(base, "the kernel gives an epoll descriptor");
        http = evhttp_new(base);
        SALUS_CHECK(http, "there is memory for a server");
        evhttp_set_max_headers_size(http, kHeadersMax);
        evhttp_set_max_body_size(http, kBodyMax);
        evhttp_set_timeout(http, kPatienceS);
        evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
        evhttp_set_gencb(
            http, [](evhttp_request* request, void* self) { static_cast<Loop*>(self)->answer(request); }, this);
        SALUS_CHECK(evhttp_accept_socket(http, listener.release()) == 0, "libevent takes the socket");
        timer = evtimer_new(
            base, [](evutil_socket_t, short, void* self) { static_cast<Loop*>(self)->look(); }, this);
    }
    ~Loop() {
        event_free(timer);
        evhttp_free(http);
        event_base_free(base);
    }

    void answer(evhttp_request* request) {
        const Asked asked = asked_in(request);
        const Verdict verdict = door.judge(asked);
        if (verdict.status != 200) return send(request, {verdict.status, std::string(verdict.why), "text/plain"});
        if (asked.is_post) return send(request, site.post(verdict.page, body_of(request)));
        if (verdict.page == "events") return begin_news(request);
        if (const Asset* asset = find_asset(verdict.page))
            return send(request, {200, std::string(asset->text), std::string(asset->type)});
        send(request, site.get(verdict.page));
    }

    void begin_news(evhttp_request* request) {
        add_headers(request, "text/event-stream");
        evhttp_send_reply_start(request, 200, nullptr);
        evhttp_connection* connection = evhttp_request_get_connection(request);
        Viewer& viewer = viewers.emplace_back(Viewer{this, request});
        evhttp_connection_set_closecb(
            connection, [](evhttp_connection*, void* gone) { static_cast<Viewer*>(gone)->loop->forget(gone); }, &viewer);
        // It sends nothing more; its end must be noticed nevertheless, at once.
        bufferevent* stream = evhttp_connection_get_bufferevent(connection);
        const timeval patience = {kPatienceS, 0};
        bufferevent_set_timeouts(stream, nullptr, &patience);
        bufferevent_setwatermark(stream, EV_READ, 0, kHeadersMax);
        bufferevent_enable(stream, EV_READ);
        tell(viewer, text_of(site.everything()));
        if (viewers.size() == 1) schedule();
    }

    void forget(void* gone) {
        const auto viewer = std::ranges::find_if(viewers, [&](const Viewer& one) { return &one == gone; });
        // If the connection still has the request, it frees it.
        if (!evhttp_request_get_connection(viewer->request)) evhttp_request_free(viewer->request);
        viewers.erase(viewer);
    }

    static void tell(const Viewer& viewer, const std::string& text) {
        evhttp_connection* connection = evhttp_request_get_connection(viewer.request);
        if (!connection || text.empty()) return;
        evbuffer* unread = bufferevent_get_output(evhttp_connection_get_bufferevent(connection));
        if (evbuffer_get_length(unread) > kUnreadMax) return evhttp_connection_free(connection);  // which forgets the viewer
        evbuffer* part = evbuffer_new();
        evbuffer_add(part, text.data(), text.size());
        evhttp_send_reply_chunk(viewer.request, part);
        evbuffer_free(part);
    }

    void look() {
        const Instant begun = os::now();
        const std::string news = text_of(site.look());
        for (auto next = viewers.begin(); next != viewers.end();) tell(*next++, news);  // which may drop it
        pause_seen = std::clamp((os::now() - begun) * kPausePerLook, kLookEvery, kLookEveryUnseen);
        schedule();
    }
    void schedule() {
        const timeval pause = timeval_of(viewers.empty() ? kLookEveryUnseen : pause_seen);
        evtimer_add(timer, &pause);
    }

    Door door;
    Site& site;
    event_base* base = nullptr;
    evhttp* http = nullptr;
    event* timer = nullptr;
    std::list<Viewer> viewers;
    Duration pause_seen = kLookEvery;  ///< while somebody views the page
};

Server::Server(os::Descriptor listener, Door door, Site& site)
    : loop_(std::make_unique<Loop>(std::move(listener), std::move(door), site)) {}

Server::~Server() = default;

void Server::run() {
    ::signal(SIGPIPE, SIG_IGN);  // a viewer may leave while we write
    loop_->look();
    event_base_dispatch(loop_->base);
}

}  // namespace salus::web
