#include "service/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "os/clock.h"
#include "os/poll.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

class MetricsServerTest : public ::testing::Test {
protected:
    MetricsServerTest() {
        char name[] = "/tmp/salus-metrics-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
    }
    ~MetricsServerTest() override { fs::remove_all(directory_); }

    MetricsAddress socket_at(const std::string& name = "socket") const {
        return {MetricsAddress::Kind::kUnix, directory_ + "/" + name};
    }
    os::Descriptor connect(const std::string& name = "socket") const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = directory_ + "/" + name;
        std::memcpy(address.sun_path, path.data(), path.size());
        os::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
        return socket;
    }
    void go_on(Duration later = {}) {
        now_ = now_ + later;
        server_.go_on(now_);
    }
    /// What comes while the server goes on, until it closes the connection.
    std::string all_from(const os::Descriptor& socket) {
        std::string all;
        for (int i = 0; i < 1000; ++i) {
            go_on();
            char block[65536];
            const ssize_t got = ::recv(socket.get(), block, sizeof block, MSG_DONTWAIT);
            if (got > 0) all.append(block, static_cast<std::size_t>(got));
            else if (got == 0 || errno != EAGAIN) return closed_ = true, all;
        }
        closed_ = false;
        return all;
    }
    std::string ask(const std::string& request) {
        const os::Descriptor socket = connect();
        EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
        std::string all = all_from(socket);
        EXPECT_TRUE(closed_);
        return all;
    }
    static std::string first_line(const std::string& text) { return text.substr(0, text.find("\r\n")); }

    std::string directory_;
    bool closed_ = false;  ///< by the server, when all_from() returned
    Instant now_{seconds(100).ns};
    std::string text_ = "metrics\n";
    std::vector<unsigned> viewers_;
    MetricsServer server_{[this](unsigned viewer) {
        viewers_.push_back(viewer);
        return text_;
    }};
};

TEST_F(MetricsServerTest, AnswersWhoAsksForTheMetrics) {
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    EXPECT_EQ(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 8\r\n"
              "Connection: close\r\n\r\nmetrics\n");
    EXPECT_EQ(viewers_, std::vector<unsigned>{::getuid()});
    EXPECT_EQ(first_line(ask("GET / HTTP/1.1\r\n\r\n")), "HTTP/1.1 404 Not Found");
    EXPECT_EQ(first_line(ask("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")), "HTTP/1.1 405 Method Not Allowed");
    EXPECT_EQ(first_line(ask("HEAD /metrics HTTP/1.1\r\n\r\n")), "HTTP/1.1 405 Method Not Allowed");
    EXPECT_EQ(first_line(ask("hello\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(first_line(ask(std::string(9000, 'x'))), "HTTP/1.1 431 Request Header Fields Too Large");
    go_on();
    EXPECT_EQ(server_.due(), kNever) << "nobody is left";
}

TEST_F(MetricsServerTest, AnAnswerIsFreshOrAMomentOld) {
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    ask(request);
    text_ = "later\n";
    EXPECT_TRUE(ask(request).ends_with("metrics\n"));
    go_on(MetricsServer::kFreshFor);
    EXPECT_TRUE(ask(request).ends_with("later\n"));
    EXPECT_EQ(viewers_.size(), 2u);
}

TEST_F(MetricsServerTest, AReaderThatIsSlowGetsAllAndOneThatStopsIsDropped) {
    text_ = std::string(4 << 20, 'x') + "\n";
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    const os::Descriptor slow = connect(), stuck = connect(), silent = connect();
    const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    for (std::size_t i = 0; i < request.size(); ++i) {  // byte by byte
        ASSERT_EQ(::send(slow.get(), &request[i], 1, MSG_NOSIGNAL), 1);
        go_on();
    }
    ASSERT_EQ(::send(stuck.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    go_on();
    EXPECT_EQ(server_.due(), now_ + MetricsServer::kPatience);
    EXPECT_GT(all_from(slow).size(), text_.size());
    go_on(MetricsServer::kPatience);
    EXPECT_EQ(server_.due(), kNever);
    EXPECT_LT(all_from(stuck).size(), text_.size());
    EXPECT_TRUE(closed_);
    EXPECT_EQ(all_from(silent), "");
    EXPECT_TRUE(closed_);
}

TEST_F(MetricsServerTest, OneMoreReaderThanThereMayBeDropsTheOldest) {
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    std::vector<os::Descriptor> idle;
    for (std::size_t i = 0; i < MetricsServer::kReadersMax; ++i) idle.push_back(connect());
    go_on();
    go_on();
    EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with("metrics\n"));
    EXPECT_EQ(all_from(idle.front()), "");
    EXPECT_TRUE(closed_);
    EXPECT_EQ(all_from(idle.back()), "");
    EXPECT_FALSE(closed_);
}

TEST_F(MetricsServerTest, AFloodWaits) {
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    std::vector<os::Descriptor> readers;
    unsigned answered = 0;
    const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    go_on(seconds(1));
    for (unsigned i = 0; i < 2 * MetricsServer::kAnswersPerSecond; ++i) {
        const os::Descriptor reader = connect();
        if (!reader) break;  // the listener is full
        if (::send(reader.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) break;
        for (int rounds = 0; rounds < 4; ++rounds) go_on();
        char c = 0;
        if (::recv(reader.get(), &c, 1, MSG_DONTWAIT) == 1) ++answered;
        else if (i >= MetricsServer::kAnswersPerSecond + 5) break;
    }
    EXPECT_EQ(answered, MetricsServer::kAnswersPerSecond);
    EXPECT_FALSE(os::readable_within(server_.descriptor(), milliseconds(20))) << "the loop would spin";
    EXPECT_LE(server_.due(), now_ + seconds(1));
    go_on(seconds(1));
    EXPECT_TRUE(ask(request).ends_with("metrics\n"));
}

TEST_F(MetricsServerTest, ItsSocketIsItsUsersUnlessAllMayRead) {
    ASSERT_TRUE(server_.serve_at(socket_at(), false).ok());
    EXPECT_EQ(fs::status(socket_at().where).permissions(), fs::perms{0600});
    ASSERT_TRUE(server_.serve_at(socket_at("other"), true).ok());
    EXPECT_FALSE(fs::exists(socket_at().where)) << "it serves nowhere else";
    EXPECT_EQ(fs::status(socket_at("other").where).permissions(), fs::perms{0666});
    ASSERT_TRUE(server_.serve_at({}, true).ok());
    EXPECT_FALSE(server_.is_serving());
    EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(MetricsServerTest, TakesNobodysSocketAway) {
    MetricsServer other([](unsigned) { return std::string(); });
    ASSERT_TRUE(other.serve_at(socket_at(), false).ok());
    EXPECT_FALSE(server_.serve_at(socket_at(), false).ok());
    const auto of_a_service = os::listen_at(directory_ + "/service", 0600);
    EXPECT_FALSE(server_.serve_at(socket_at("service"), false).ok());
    EXPECT_TRUE(fs::exists(directory_ + "/service") && fs::exists(socket_at().where));
    { const auto left = os::listen_at(directory_ + "/left", 0600); }
    EXPECT_TRUE(server_.serve_at(socket_at("left"), false).ok()) << "whoever listened there is gone";
}

TEST_F(MetricsServerTest, OverALoopbackAddressTheReaderIsNobody) {
    std::uint16_t port = 0;
    for (std::uint16_t tried = 20464; port == 0 && tried < 20564; ++tried) {
        if (server_.serve_at({MetricsAddress::Kind::kLoopback, "127.0.0.1", tried}, true).ok()) port = tried;
    }
    ASSERT_NE(port, 0);
    const auto asked = [&](const std::string& host) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        const std::string request = "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
        EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
        EXPECT_TRUE(os::readable_within(server_.descriptor(), seconds(10)));
        std::string all;
        const Instant until = os::now() + seconds(10);  // bytes take a moment, even here
        while (os::now() < until && all.find("\r\n\r\n") == std::string::npos) all += all_from(socket);
        return first_line(all);
    };
    EXPECT_EQ(asked("localhost:9464"), "HTTP/1.1 200 OK");
    EXPECT_EQ(asked("evil.example"), "HTTP/1.1 403 Forbidden");
    EXPECT_EQ(viewers_, std::vector<unsigned>{MetricsServer::kNobody});
    MetricsServer second([](unsigned) { return std::string(); });
    EXPECT_FALSE(second.serve_at({MetricsAddress::Kind::kLoopback, "127.0.0.1", port}, true).ok());
    EXPECT_FALSE(second.is_serving());
}

}  // namespace
}  // namespace salus::service
