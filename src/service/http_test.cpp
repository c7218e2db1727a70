#include "service/http.h"

#include <string>

#include <gtest/gtest.h>

namespace salus::service::http {
namespace {

using Kind = Parsed::Kind;

TEST(Http, ARequestIsReadWhenItsHeadIsComplete) {
    const std::string head = "GET /metrics?debug=1 HTTP/1.1\r\nhost: LocalHost:9464\r\nAccept: */*\r\n\r\n";
    for (std::size_t size = 0; size < head.size(); ++size)
        EXPECT_EQ(parse(head.substr(0, size)).kind, Kind::kUnfinished) << size;
    const Parsed parsed = parse(head + "more");
    ASSERT_EQ(parsed.kind, Kind::kRequest);
    EXPECT_EQ(parsed.request.method, "GET");
    EXPECT_EQ(parsed.request.path, "/metrics");
    EXPECT_EQ(parsed.request.host, "localhost");
    EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").request.host);
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost:[::1]:80\r\n\r\n").request.host, "[::1]");
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n").request.host, "[::1]");
}

TEST(Http, NonsenseIsToldFromWhatIsUnfinished) {
    for (const std::string text :
         {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET metrics HTTP/1.1\r\n\r\n", "get / HTTP/1.1\r\n\r\n",
          "GET / SPDY/3\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1 x\r\n\r\n",
          "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "\x16\x03\x01\r\n\r\n"}) {
        EXPECT_EQ(parse(text).kind, Kind::kNonsense) << text;
    }
    EXPECT_EQ(parse(std::string(kHeadMax + 1, 'x')).kind, Kind::kTooLong);
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nx: " + std::string(kHeadMax, 'x') + "\r\n\r\n").kind, Kind::kTooLong);
    EXPECT_EQ(parse(std::string(kHeadMax, 'x')).kind, Kind::kUnfinished);
}

TEST(Http, AnAnswerSaysHowLongItIs) {
    EXPECT_EQ(answer(200, "text/plain", "two\n"),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntwo\n");
    EXPECT_EQ(
        answer(405, "text/plain", "", "Allow: GET\r\n"),
        "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nContent-Length: 0\r\nAllow: GET\r\nConnection: "
        "close\r\n\r\n");
}

TEST(Http, AServerOnTheLoopbackAddressHasFewNames) {
    for (const char* name : {"localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) EXPECT_TRUE(is_loopback_name(name)) << name;
    for (const char* name : {"", "127.0.0.1.example.org", "evil.example", "10.0.0.1", "[::2]", "localhost.example"})
        EXPECT_FALSE(is_loopback_name(name)) << name;
}

}  // namespace
}  // namespace salus::service::http
