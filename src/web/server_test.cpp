#include "web/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "os/loopback.h"

namespace salus::web {
namespace {

const std::string kServedToken(32, 'a');

class CountingSite : public Site {
public:
    Reply get(std::string_view page) override { return {200, "page " + std::string(page)}; }
    Reply post(std::string_view, std::string_view body) override { return {200, "got " + std::string(body)}; }
    std::vector<News> look() override { return {{"looked", std::to_string(++looks_)}}; }
    std::vector<News> everything() override { return {{"all", std::to_string(looks_)}}; }

private:
    int looks_ = 0;
};

/// A server in a process of its own, because it serves until it is killed.
class WebServer : public testing::Test {
protected:
    void SetUp() override {
        Result<os::Loopback> socket = os::listen_on_loopback(0);
        ASSERT_TRUE(socket) << socket.error();
        port_ = socket.value().port;
        pid_ = ::fork();
        if (pid_ != 0) return;
        CountingSite site;
        Server(std::move(socket.value().listener), Door(kServedToken, port_), site).run();
        ::_exit(0);
    }
    void TearDown() override {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    os::Descriptor connected() const {
        os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port_));
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        const timeval patience{60, 0};
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        return socket;
    }
    std::string head(const std::string& request, const std::string& more = "") const {
        return request + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n" + more + "\r\n";
    }
    /// What comes until the end, or until `mark` has come.
    static std::string read_until(const os::Descriptor& socket, const std::string& mark) {
        std::string text;
        char part[4096];
        while (text.find(mark) == std::string::npos) {
            const ssize_t got = ::recv(socket.get(), part, sizeof part, 0);
            if (got <= 0) break;
            text.append(part, static_cast<std::size_t>(got));
        }
        return text;
    }
    std::string answer_to(const std::string& request) const {
        const os::Descriptor socket = connected();
        EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
        return read_until(socket, "never");
    }

    int port_ = 0;
    pid_t pid_ = -1;
};

TEST_F(WebServer, GivesPagesToWhoHasTheToken) {
    const std::string page = answer_to(head("GET /" + kServedToken + "/job/3", "Connection: close\r\n"));
    EXPECT_TRUE(page.starts_with("HTTP/1.1 200")) << page;
    EXPECT_TRUE(page.ends_with("page job/3")) << page;
    EXPECT_NE(page.find("Content-Security-Policy: default-src 'self'"), std::string::npos);
    const std::string index = answer_to(head("GET /" + kServedToken + "/", "Connection: close\r\n"));
    EXPECT_NE(index.find("Content-Type: text/html"), std::string::npos);
    EXPECT_NE(index.find("<title>Salus</title>"), std::string::npos);
}

TEST_F(WebServer, RefusesOthersWithoutAWordOfThePage) {
    for (const std::string path : {"/", "/app.js", "/aaaa/", "/events"}) {
        const std::string answer = answer_to(head("GET " + path, "Connection: close\r\n"));
        EXPECT_TRUE(answer.starts_with("HTTP/1.1 403")) << answer;
        EXPECT_EQ(answer.find("<title>"), std::string::npos);
    }
    const std::string foreign =
        answer_to("GET /" + kServedToken + "/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(foreign.starts_with("HTTP/1.1 403")) << foreign;
    const std::string put = answer_to(head("PUT /" + kServedToken + "/act", "Connection: close\r\nContent-Length: 0\r\n"));
    EXPECT_FALSE(put.starts_with("HTTP/1.1 200")) << put;
}

TEST_F(WebServer, TakesChangesFromItsOwnPage) {
    const std::string json = "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n";
    const std::string own = "Origin: http://127.0.0.1:" + std::to_string(port_) + "\r\n";
    EXPECT_TRUE(answer_to(head("POST /" + kServedToken + "/act", json + own) + "{}").ends_with("got {}"));
    EXPECT_TRUE(answer_to(head("POST /" + kServedToken + "/act", json) + "{}").starts_with("HTTP/1.1 403"));
    EXPECT_TRUE(answer_to(head("POST /" + kServedToken + "/act", json + "Origin: http://evil.example\r\n") + "{}")
                    .starts_with("HTTP/1.1 403"));
    const std::string long_body = "Content-Type: application/json\r\nContent-Length: 1000000\r\nConnection: close\r\n" + own;
    EXPECT_FALSE(answer_to(head("POST /" + kServedToken + "/act", long_body)).starts_with("HTTP/1.1 200"));
}

TEST_F(WebServer, TellsAllViewersTheNewsOfOneLook) {
    const os::Descriptor viewers[] = {connected(), connected()};
    const std::string request = head("GET /" + kServedToken + "/events");
    for (const os::Descriptor& viewer : viewers) ::send(viewer.get(), request.data(), request.size(), MSG_NOSIGNAL);
    for (const os::Descriptor& viewer : viewers) {
        const std::string news = read_until(viewer, "event: looked\ndata: 5\n");
        EXPECT_NE(news.find("Content-Type: text/event-stream"), std::string::npos) << news;
        EXPECT_NE(news.find("event: all\ndata: "), std::string::npos) << news;
        EXPECT_NE(news.find("event: looked\ndata: 4\n"), std::string::npos) << news;
    }
}

TEST_F(WebServer, GoesOnWhenAViewerLeaves) {
    for (int i = 0; i < 3; ++i) {
        const os::Descriptor viewer = connected();
        const std::string request = head("GET /" + kServedToken + "/events");
        ::send(viewer.get(), request.data(), request.size(), MSG_NOSIGNAL);
        EXPECT_NE(read_until(viewer, "event: looked").find("event: looked"), std::string::npos);
    }
    EXPECT_TRUE(answer_to(head("GET /" + kServedToken + "/x", "Connection: close\r\n")).ends_with("page x"));
}

}  // namespace
}  // namespace salus::web
