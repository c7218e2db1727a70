// Serves the metrics over HTTP inside the service's loop: GET /metrics, to readers on this machine. It never waits. A reader
// that is slow, or asks for too much, is dropped, and a flood of them costs no more than kAnswersPerSecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"
#include "os/socket.h"
#include "service/metrics_address.h"

namespace salus::service {

class MetricsServer {
public:
    /// The text as this user may see it. Over a loopback address nobody can tell who reads: then it is kNobody.
    using Render = std::function<std::string(unsigned viewer)>;
    static constexpr unsigned kNobody = static_cast<unsigned>(kNoUser);

    explicit MetricsServer(Render render);
    ~MetricsServer() { close_listener(); }
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

    /// Serves there from now on, and nowhere else. On an error it serves nowhere. `all_users`: who may read a socket.
    Result<bool> serve_at(const MetricsAddress& address, bool all_users);
    bool is_serving() const { return static_cast<bool>(listener_); }

    /// Readable when go_on() has something to do.
    int descriptor() const { return epoll_.get(); }
    void go_on(Instant now);
    /// When to call go_on() at the latest.
    Instant due() const;

    static constexpr std::size_t kReadersMax = 16;  ///< at once; one more, and the oldest is dropped
    static constexpr unsigned kAnswersPerSecond = 50;
    static constexpr Duration kPatience = seconds(5);        ///< with a reader, in all
    static constexpr Duration kFreshFor = milliseconds(50);  ///< a text is given to others for so long

private:
    struct Reader {
        os::Descriptor socket;
        unsigned viewer = kNobody;
        bool may_read = true;
        Instant until;
        std::string received;
        std::string answer;  ///< what is not sent yet
        bool answered = false;
        std::size_t ignored = 0;  ///< bytes that came after the request
    };

    void close_listener();
    void watch(int descriptor, std::uint32_t id, bool is_new, std::uint32_t events) const;
    void accept_some(Instant now);
    void pause();
    void add(os::Descriptor socket, Instant now);
    /// False: done with the reader.
    bool serve(Reader& reader, std::uint32_t id, Instant now);
    bool read(Reader& reader, Instant now);
    bool send(Reader& reader, std::uint32_t id);
    static bool ignore_rest(Reader& reader);
    std::string answer_to(const Reader& reader, Instant now, bool& is_complete);
    const std::string& text_for(unsigned viewer, Instant now);

    Render render_;
    os::Descriptor epoll_;
    os::Descriptor listener_;
    os::SocketFile socket_file_;  ///< that it made, if it has one
    MetricsAddress address_;
    bool all_users_ = false;
    std::map<std::uint32_t, Reader> readers_;  ///< by age
    std::uint32_t next_reader_ = 1;            ///< 0 is the listener
    Instant second_began_;
    unsigned accepted_in_second_ = 0;
    Instant accept_again_at_ = kNever;
    unsigned rendered_for_ = kNobody;
    Instant rendered_at_{-kFreshFor.ns};
    std::string text_;
};

}  // namespace salus::service
