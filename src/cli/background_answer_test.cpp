#include "cli/background_answer.h"

#include <gtest/gtest.h>

#include "os/clock.h"

namespace salus::cli {
namespace {

void wait_for_answer(BackgroundAnswer& answer, Instant at) {
    const Instant until = os::now() + seconds(60);
    while (!answer.last() && os::now() < until) {
        answer.look(at);
        os::sleep_for(milliseconds(2));
    }
    ASSERT_TRUE(answer.last());
}

TEST(BackgroundAnswer, IsWhatTheProgramPrints) {
    BackgroundAnswer answer({"/bin/sh", "-c", "echo one; echo two"});
    answer.look({});
    EXPECT_FALSE(answer.last()) << "nobody wanted it";
    answer.want({});
    wait_for_answer(answer, {});
    EXPECT_EQ(answer.last()->value(), "one\ntwo\n");
}

TEST(BackgroundAnswer, IsTheReasonIfTheProgramFails) {
    BackgroundAnswer answer({"/bin/sh", "-c", "echo first; echo why >&2; exit 1"});
    answer.want({});
    wait_for_answer(answer, {});
    EXPECT_EQ(answer.last()->error(), "why");
    BackgroundAnswer nobody({"/nonexistent/salus"});
    nobody.want({});
    wait_for_answer(nobody, {});
    EXPECT_FALSE(nobody.last()->ok());
}

TEST(BackgroundAnswer, IsSoughtAgainOnlyWhenItIsOld) {
    char name[] = "/tmp/salus-background-XXXXXX";
    const std::string file = std::string(::mkdtemp(name)) + "/runs";
    BackgroundAnswer answer({"/bin/sh", "-c", "echo x >> " + file + "; wc -l < " + file});
    answer.want({});
    wait_for_answer(answer, Instant{} + seconds(1));
    answer.want(Instant{} + seconds(2));  // it is fresh: nothing starts
    os::sleep_for(milliseconds(50));
    answer.look(Instant{} + seconds(2));
    EXPECT_EQ(answer.last()->value(), "1\n");
    answer.want(Instant{} + seconds(60));
    const Instant until = os::now() + seconds(60);
    while (answer.last()->value() != "2\n" && os::now() < until) {
        answer.look(Instant{} + seconds(60));
        os::sleep_for(milliseconds(2));
    }
    EXPECT_EQ(answer.last()->value(), "2\n");
}

}  // namespace
}  // namespace salus::cli
