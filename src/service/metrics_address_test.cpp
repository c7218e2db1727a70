#include "service/metrics_address.h"

#include <gtest/gtest.h>

namespace salus::service {
namespace {

using Kind = MetricsAddress::Kind;

TEST(MetricsAddress, IsOffALoopbackAddressOrASocket) {
    const struct {
        const char* text;
        Kind kind;
        const char* where;
        int port;
    } rows[] = {
        {"off", Kind::kOff, "", 0},
        {"127.0.0.1:9464", Kind::kLoopback, "127.0.0.1", 9464},
        {"127.3.2.1:1", Kind::kLoopback, "127.3.2.1", 1},
        {"[::1]:65535", Kind::kLoopback, "::1", 65535},
        {"unix:/run/salus/metrics", Kind::kUnix, "/run/salus/metrics", 0},
    };
    for (const auto& row : rows) {
        const Result<MetricsAddress> address = metrics_address_from(row.text);
        ASSERT_TRUE(address.ok()) << address.error();
        EXPECT_EQ(address.value().kind, row.kind);
        EXPECT_EQ(address.value().where, row.where);
        EXPECT_EQ(address.value().port, row.port);
    }
}

TEST(MetricsAddress, WhatOtherMachinesCanReachIsRefused) {
    for (const char* text :
         {"0.0.0.0:9464", "10.0.0.1:9464", "[::]:9464", "[fe80::1]:9464", "localhost:9464", "example.org:80",
          "128.0.0.1:9464", "[::ffff:10.0.0.1]:9464", "127.0.0.1.example.org:80", "127.0.0.01:9464"}) {
        const Result<MetricsAddress> address = metrics_address_from(text);
        ASSERT_FALSE(address.ok()) << text;
        EXPECT_TRUE(address.error().starts_with("must be a loopback address")) << address.error();
        EXPECT_EQ(address.error().find('\n'), std::string::npos);
    }
}

TEST(MetricsAddress, WhatIsNoAddressIsRefused) {
    for (const std::string text : {"", "on", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                                   "127.0.0.1:-1", "127.0.0.1:x", "::1:9464", "unix:", "unix:relative", "Off"}) {
        EXPECT_FALSE(metrics_address_from(text).ok()) << text;
    }
    EXPECT_FALSE(metrics_address_from("unix:/" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace salus::service
