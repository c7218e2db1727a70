#include "service/metrics_server.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "service/http.h"

namespace salus::service {
namespace {

constexpr std::size_t kReadAtOnce = 4096;
constexpr std::size_t kIgnoredMax = 65536;
constexpr std::uint32_t kListener = 0;
constexpr std::string_view kPlain = "text/plain; charset=utf-8";
constexpr std::string_view kMetrics = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

MetricsServer::MetricsServer(Render render) : render_(std::move(render)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Result<bool> MetricsServer::serve_at(const MetricsAddress& address, bool all_users) {
    close_listener();
    readers_.clear();
    address_ = address;
    all_users_ = all_users;
    if (address.kind == MetricsAddress::Kind::kOff) return true;
    const bool is_unix = address.kind == MetricsAddress::Kind::kUnix;
    if (is_unix && os::is_served(address.where)) return Error{address.where + " is the socket of another program"};
    Result<os::Descriptor> listener = is_unix
                                          ? os::listen_at(address.where, all_users ? 0666 : 0600, os::SocketKind::kStream)
                                          : os::listen_on_loopback(address.where, address.port);
    if (!listener) return Error{listener.error()};
    listener_ = std::move(listener).value();
    if (is_unix) socket_file_ = os::socket_file_at(address.where);
    watch(listener_.get(), kListener, /*is_new=*/true, EPOLLIN);
    return true;
}

void MetricsServer::close_listener() {
    if (!listener_) return;
    if (address_.kind == MetricsAddress::Kind::kUnix && os::socket_file_at(address_.where) == socket_file_)
        ::unlink(address_.where.c_str());
    listener_.reset();
    accept_again_at_ = kNever;
}

void MetricsServer::watch(int descriptor, std::uint32_t id, bool is_new, std::uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.u32 = id;
    ::epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event);
}

Instant MetricsServer::due() const {
    Instant due = accept_again_at_;
    for (const auto& [id, reader] : readers_) due = std::min(due, reader.until);
    return due;
}

void MetricsServer::go_on(Instant now) {
    std::array<epoll_event, kReadersMax + 1> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        const std::uint32_t id = events[static_cast<std::size_t>(i)].data.u32;
        const auto reader = readers_.find(id);
        if (id == kListener) accept_some(now);
        else if (reader != readers_.end() && !serve(reader->second, id, now)) readers_.erase(reader);
    }
    std::erase_if(readers_, [&](const auto& entry) { return entry.second.until <= now; });
    if (accept_again_at_ > now || !listener_) return;
    accept_again_at_ = kNever;
    watch(listener_.get(), kListener, /*is_new=*/false, EPOLLIN);
}

/// Those for whom there is no time, or no descriptor, wait in the listener.
void MetricsServer::accept_some(Instant now) {
    if (now - second_began_ >= seconds(1)) {
        second_began_ = now;
        accepted_in_second_ = 0;
    }
    for (std::size_t i = 0; i < kReadersMax; ++i) {
        if (accepted_in_second_ == kAnswersPerSecond) return pause();
        os::Descriptor socket = os::accept_from(listener_.get());
        if (!socket) return errno == EAGAIN ? void() : pause();
        ++accepted_in_second_;
        add(std::move(socket), now);
    }
}

void MetricsServer::pause() {
    accept_again_at_ = second_began_ + seconds(1);
    watch(listener_.get(), kListener, /*is_new=*/false, 0);
}

void MetricsServer::add(os::Descriptor socket, Instant now) {
    if (readers_.size() >= kReadersMax) readers_.erase(readers_.begin());
    Reader reader;
    reader.until = now + kPatience;
    if (address_.kind == MetricsAddress::Kind::kUnix) {
        const auto peer = os::peer_of(socket.get());
        if (!peer) return;
        reader.viewer = peer->uid;
        reader.may_read = all_users_ || peer->uid == ::getuid() || peer->uid == 0;
    }
    reader.socket = std::move(socket);
    const std::uint32_t id = next_reader_++;
    if (next_reader_ == kListener) ++next_reader_;
    watch(reader.socket.get(), id, /*is_new=*/true, EPOLLIN);
    readers_.insert_or_assign(id, std::move(reader));
}

bool MetricsServer::serve(Reader& reader, std::uint32_t id, Instant now) {
    if (reader.answered) return reader.answer.empty() ? ignore_rest(reader) : send(reader, id);
    return read(reader, now) && (!reader.answered || send(reader, id));
}

bool MetricsServer::read(Reader& reader, Instant now) {
    const bool goes_on = os::receive_some(reader.socket.get(), reader.received, kReadAtOnce);
    reader.answer = answer_to(reader, now, reader.answered);
    return reader.answered || goes_on;
}

bool MetricsServer::send(Reader& reader, std::uint32_t id) {
    const auto sent = os::send_some(reader.socket.get(), reader.answer);
    if (!sent) return false;
    reader.answer.erase(0, *sent);
    // To close a connection with unread bytes in it would take back what the reader has not read yet.
    if (reader.answer.empty()) os::end_sending(reader.socket.get());
    watch(reader.socket.get(), id, /*is_new=*/false, reader.answer.empty() ? EPOLLIN : EPOLLOUT);
    return true;
}

bool MetricsServer::ignore_rest(Reader& reader) {
    std::string rest;
    const bool goes_on = os::receive_some(reader.socket.get(), rest, kReadAtOnce);
    reader.ignored += rest.size();
    return goes_on && reader.ignored <= kIgnoredMax;
}

/// `is_complete`: the request, and so the answer.
std::string MetricsServer::answer_to(const Reader& reader, Instant now, bool& is_complete) {
    const http::Parsed parsed = http::parse(reader.received);
    is_complete = parsed.kind != http::Parsed::Kind::kUnfinished;
    if (!is_complete) return {};
    if (parsed.kind == http::Parsed::Kind::kTooLong) return http::answer(431, kPlain, "The request is too long.\n");
    if (parsed.kind == http::Parsed::Kind::kNonsense) return http::answer(400, kPlain, "This is not a request.\n");
    const http::Request& request = parsed.request;
    const bool is_unix = address_.kind == MetricsAddress::Kind::kUnix;
    if (!reader.may_read) return http::answer(403, kPlain, "The service belongs to another user.\n");
    if (!is_unix && request.host && !http::is_loopback_name(*request.host))
        return http::answer(403, kPlain, "The server must be named by a loopback address.\n");
    if (request.path != "/metrics") return http::answer(404, kPlain, "There is only /metrics.\n");
    if (request.method != "GET") return http::answer(405, kPlain, "There is only GET.\n", "Allow: GET\r\n");
    return http::answer(200, kMetrics, text_for(reader.viewer, now));
}

const std::string& MetricsServer::text_for(unsigned viewer, Instant now) {
    if (viewer == rendered_for_ && now - rendered_at_ < kFreshFor) return text_;
    text_ = render_(viewer);
    rendered_for_ = viewer;
    rendered_at_ = now;
    return text_;
}

}  // namespace salus::service
