#include "web/door.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace salus::web {
namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";
const std::string kHost = "127.0.0.1:8080";
const std::string kOrigin = "http://127.0.0.1:8080";
const std::string kJson = "application/json";

Asked get(const std::string& path) { return {false, path, kHost, "", "", ""}; }
Asked post(const std::string& path) { return {true, path, kHost, kOrigin, "same-origin", kJson}; }

TEST(Door, LetsInWhoHasTheToken) {
    const Door door(kToken, 8080);
    EXPECT_EQ(door.address(), kOrigin + "/" + kToken + "/");
    for (const char* page : {"", "events", "job/3", "app.js"}) {
        const Verdict verdict = door.judge(get("/" + kToken + "/" + page));
        EXPECT_EQ(verdict.status, 200) << page;
        EXPECT_EQ(verdict.page, page);
    }
    EXPECT_EQ(door.judge(post("/" + kToken + "/act")).status, 200);
    Asked named = get("/" + kToken + "/");
    named.host = "localhost:8080";
    named.origin = "http://localhost:8080";
    EXPECT_EQ(door.judge(named).status, 200);
}

TEST(Door, RefusesEveryOtherPath) {
    const Door door(kToken, 8080);
    std::string wrong = kToken;
    wrong.back() = '0';
    const std::vector<std::string> paths = {"",
                                            "/",
                                            "//",
                                            "/" + wrong + "/",
                                            "/" + kToken.substr(1) + "/",
                                            "/" + kToken + "0/",
                                            "/" + kToken + kToken + "/",
                                            "/app.js",
                                            "/events",
                                            kToken + "/",
                                            "/x/" + kToken + "/",
                                            "/" + kToken.substr(0, 31),
                                            "/" + kToken};
    for (const std::string& path : paths) {
        EXPECT_EQ(door.judge(get(path)).status, 403) << path;
        EXPECT_EQ(door.judge(get(path)).page, "") << path;
        EXPECT_EQ(door.judge(post(path)).status, 403) << path;
        EXPECT_EQ(std::string(door.judge(get(path)).why).find(kToken), std::string::npos);
    }
}

TEST(Door, RefusesAnotherHostsName) {
    const Door door(kToken, 8080);
    for (const char* host : {"", "evil.example:8080", "127.0.0.1", "127.0.0.1:80801", "localhost",
                             "127.0.0.1:8080.evil.example", "[::1]:8080", "127.0.0.2:8080", "LOCALHOST:8080 "}) {
        Asked asked = get("/" + kToken + "/");
        asked.host = host;
        EXPECT_EQ(door.judge(asked).status, 403) << host;
    }
}

TEST(Door, RefusesAnotherOrigin) {
    const Door door(kToken, 8080);
    for (const char* origin : {"http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081",
                               "http://localhost:8080", "http://127.0.0.1:8080/"}) {
        Asked asked = get("/" + kToken + "/events");
        asked.origin = origin;
        EXPECT_EQ(door.judge(asked).status, 403) << origin;
        asked = post("/" + kToken + "/act");
        asked.origin = origin;
        EXPECT_EQ(door.judge(asked).status, 403) << origin;
    }
}

TEST(Door, LetsALinkOpenThePageAndNothingElse) {
    const Door door(kToken, 8080);
    for (const char* site : {"cross-site", "same-site"}) {
        Asked asked = get("/" + kToken + "/");
        asked.fetch_site = site;
        EXPECT_EQ(door.judge(asked).status, 200) << site;
        asked.path += "events";
        EXPECT_EQ(door.judge(asked).status, 403) << site;
        asked = post("/" + kToken + "/act");
        asked.fetch_site = site;
        EXPECT_EQ(door.judge(asked).status, 403) << site;
    }
}

TEST(Door, ChangesComeAsJsonFromThePage) {
    const Door door(kToken, 8080);
    Asked asked = post("/" + kToken + "/act");
    asked.origin.clear();
    EXPECT_EQ(door.judge(asked).status, 403);
    asked = post("/" + kToken + "/act");
    for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}) {
        asked.content_type = type;
        EXPECT_EQ(door.judge(asked).status, 415) << type;
    }
}

TEST(Door, SecretsAreEqualOnlyAsAWhole) {
    EXPECT_TRUE(same_secret("", ""));
    EXPECT_TRUE(same_secret("abc", "abc"));
    EXPECT_FALSE(same_secret("abc", "abd"));
    EXPECT_FALSE(same_secret("abc", "ab"));
    EXPECT_FALSE(same_secret("abc", "bbc"));
}

}  // namespace
}  // namespace salus::web
