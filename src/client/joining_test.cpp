// A process that joins, and a service that says what the test wants.
#include "client/joining.h"

#include <gtest/gtest.h>

#include "client/service_fixture.h"

namespace salus::client {
namespace {

using test::ScriptedService;
using test::Setting;

class JoiningTest : public ::testing::Test {
protected:
    /// Answers the next announcement.
    os::Descriptor answer(const wire::Message& message) {
        os::Descriptor socket = service_.accept();
        const auto next = [&] {
            EXPECT_TRUE(os::readable_within(socket.get(), test::kPatience));
            return wire::receive(socket.get()).message;
        };
        for (wire::Message said = next(); !std::holds_alternative<wire::Run>(said); said = next()) {
            if (!std::holds_alternative<wire::Wishes>(said)) return {};
        }
        EXPECT_TRUE(wire::send(socket.get(), message));
        return socket;
    }
    /// It is told to wait.
    os::Descriptor announce() {
        wire::Running running;
        running.job = 7;
        running.waits = 1;
        auto socket = std::async(std::launch::async, [&] { return answer(running); });
        EXPECT_TRUE(joining_.announce());
        return socket.get();
    }

    ScriptedService service_;
    Setting socket_{"SALUS_SOCKET", service_.socket()};
    Joining joining_{describe_process("job", "key")};
};

TEST_F(JoiningTest, ItWaitsForStartOrAsLongAsItsCallerSays) {
    const os::Descriptor socket = announce();
    const Result<bool> not_yet = joining_.wait(milliseconds(1));
    ASSERT_TRUE(not_yet);
    EXPECT_FALSE(not_yet.value());
    EXPECT_TRUE(wire::send(socket.get(), wire::Start{}));
    const Result<bool> started = joining_.wait(test::kPatience);
    ASSERT_TRUE(started);
    EXPECT_TRUE(started.value());
}

TEST_F(JoiningTest, AFinalAnswerEndsTheWait) {
    os::Descriptor socket = announce();
    EXPECT_TRUE(wire::send(socket.get(), wire::Sorry{wire::Text<256>("the GPU 1 is lost"), 2}));
    socket.reset();
    const Result<bool> refused = joining_.wait(test::kPatience);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), "the GPU 1 is lost");
}

TEST_F(JoiningTest, SoDoesOneFromTheNextService) {
    announce().reset();
    auto next = std::async(std::launch::async, [&] { answer(wire::Sorry{wire::Text<256>("no such GPU"), 2}); });
    const Result<bool> refused = joining_.wait(test::kPatience);
    next.get();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), "no such GPU");
}

TEST_F(JoiningTest, AnAnswerThatMayChangeIsAskedForAgain) {
    announce().reset();
    auto next = std::async(std::launch::async, [&] {
        answer(wire::Sorry{wire::Text<256>("too many connections"), 0});
        return answer(wire::Running{});
    });
    const Result<bool> started = joining_.wait(test::kPatience);
    ASSERT_TRUE(started) << started.error();
    EXPECT_TRUE(started.value());
}

TEST_F(JoiningTest, GpusAreNamedWithoutControlCharacters) {
    const Setting visible("CUDA_VISIBLE_DEVICES", "GPU-1\n\x1b[2J,GPU-2");
    auto wishes = std::async(std::launch::async, [&] {
        const os::Descriptor socket = service_.accept();
        EXPECT_TRUE(os::readable_within(socket.get(), test::kPatience));
        const wire::Received said = wire::receive(socket.get());
        const auto* found = std::get_if<wire::Wishes>(&said.message);
        return found ? std::string(found->devices.view()) : "nothing";
    });
    EXPECT_FALSE(joining_.announce());
    EXPECT_EQ(wishes.get(), "GPU-1??[2J,GPU-2");
}

}  // namespace
}  // namespace salus::client
