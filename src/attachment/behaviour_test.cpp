#include "attachment/behaviour.h"

#include <gtest/gtest.h>

namespace salus::attachment {
namespace {

class BehaviourTest : public ::testing::Test {
protected:
    /// A call of 5 ms after a pause.
    void call_after(Duration pause, Duration cpu = {}, bool fetched = false) {
        now_ = now_ + pause + milliseconds(5);
        behaviour_.answered({pause, cpu, fetched}, now_);
    }
    void train() {
        now_ = now_ + milliseconds(50);
        behaviour_.trained(now_);
    }
    bool is_interactive() const { return behaviour_.found().interactive; }
    ClassReason reason() const { return behaviour_.found().reason; }

    Behaviour behaviour_;
    Instant now_{1'000'000'000};
};

TEST_F(BehaviourTest, AServerIsInteractiveFromItsFourthRequestOn) {
    call_after({});
    for (int i = 0; i < 2; ++i) call_after(milliseconds(200), milliseconds(2));
    EXPECT_FALSE(is_interactive());
    EXPECT_EQ(reason(), ClassReason::kUnknown);
    call_after(milliseconds(200), milliseconds(2));
    EXPECT_TRUE(is_interactive());
    EXPECT_EQ(reason(), ClassReason::kWaits);
}

TEST_F(BehaviourTest, AScorerWithASlowLoaderIsBatch) {
    for (int i = 0; i < 50; ++i) call_after(milliseconds(200), milliseconds(2), /*fetched=*/true);
    EXPECT_FALSE(is_interactive());
    EXPECT_EQ(reason(), ClassReason::kFetches);
}

TEST_F(BehaviourTest, AScorerThatPreparesItsDataItselfIsBatch) {
    for (int i = 0; i < 50; ++i) call_after(milliseconds(20), milliseconds(18));
    EXPECT_FALSE(is_interactive());
    EXPECT_EQ(reason(), ClassReason::kComputes);
}

TEST_F(BehaviourTest, CallsThatFollowEachOtherAreBatch) {
    for (int i = 0; i < 1000; ++i) call_after(microseconds(100));
    EXPECT_FALSE(is_interactive());
}

TEST_F(BehaviourTest, ALoaderThatIsNowSlowNowFastChangesItsMindOnce) {
    int changes = 0;
    for (int i = 0; i < 4000; ++i) {
        const ClientClass before = behaviour_.found();
        call_after(i % 2 == 0 ? milliseconds(8) : milliseconds(1), {}, /*fetched=*/true);
        changes += behaviour_.found() == before ? 0 : 1;
    }
    EXPECT_EQ(changes, 1);
    EXPECT_EQ(reason(), ClassReason::kFetches);
}

TEST_F(BehaviourTest, WithoutAnyPauseThatIsTheReasonAfterTenSeconds) {
    const Instant start = now_;
    while (now_ - start < seconds(9)) call_after(microseconds(100));
    EXPECT_EQ(reason(), ClassReason::kUnknown);
    while (now_ - start < seconds(11)) call_after(microseconds(100));
    EXPECT_EQ(behaviour_.found(), (ClientClass{false, ClassReason::kNoPauses}));
}

TEST_F(BehaviourTest, WhoHasToWaitForAProcessorDoesNotWaitForSomebody) {
    for (int i = 0; i < 50; ++i) {
        now_ = now_ + milliseconds(30);
        behaviour_.answered({.length = milliseconds(25), .cpu = {}, .slept = false}, now_);
    }
    EXPECT_FALSE(is_interactive());
}

TEST_F(BehaviourTest, ATrainingAndItsValidationAreBatch) {
    for (int epoch = 0; epoch < 5; ++epoch) {
        for (int i = 0; i < 20; ++i) train();
        for (int i = 0; i < 20; ++i) call_after(milliseconds(10));
        EXPECT_FALSE(is_interactive());
        EXPECT_EQ(reason(), ClassReason::kTrains);
    }
}

TEST_F(BehaviourTest, GeneratingTextIsOneRequestOfManyCalls) {
    for (int request = 0; request < 4; ++request) {
        call_after(milliseconds(500), milliseconds(1));
        for (int i = 0; i < 300; ++i) call_after(microseconds(300), microseconds(300));
    }
    EXPECT_TRUE(is_interactive());
}

TEST_F(BehaviourTest, AQueueThatBecomesAServer) {
    for (int i = 0; i < 500; ++i) call_after(microseconds(100));
    EXPECT_FALSE(is_interactive());
    for (int i = 0; i < 3; ++i) call_after(seconds(1));
    EXPECT_TRUE(is_interactive());
}

TEST_F(BehaviourTest, AServerThatBecomesAQueue) {
    for (int i = 0; i < 8; ++i) call_after(seconds(1));
    ASSERT_TRUE(is_interactive());
    const Instant busy_since = now_;
    while (now_ - busy_since < seconds(9)) call_after(microseconds(100));
    EXPECT_TRUE(is_interactive()) << "a busy moment of a server";
    while (now_ - busy_since < seconds(11)) call_after(microseconds(100));
    EXPECT_FALSE(is_interactive());
    EXPECT_EQ(reason(), ClassReason::kNoPauses);
}

TEST_F(BehaviourTest, AServerThatTrainsBecomesBatchAndComesBack) {
    for (int i = 0; i < 8; ++i) call_after(seconds(1));
    ASSERT_TRUE(is_interactive());
    train();
    EXPECT_FALSE(is_interactive());
    for (int i = 0; i < 20; ++i) call_after(seconds(1));
    EXPECT_FALSE(is_interactive()) << "this may be a pause between two trainings";
    for (int i = 0; i < 20; ++i) call_after(seconds(1));
    EXPECT_TRUE(is_interactive());
}

TEST_F(BehaviourTest, AServerThatDecodesImagesStaysInteractive) {
    for (int i = 0; i < 8; ++i) call_after(milliseconds(50), milliseconds(20));
    EXPECT_TRUE(is_interactive());
    for (int i = 0; i < 3; ++i) call_after(milliseconds(50), milliseconds(40));
    EXPECT_TRUE(is_interactive());
    for (int i = 0; i < 3; ++i) call_after(milliseconds(50), milliseconds(40));
    EXPECT_FALSE(is_interactive());
}

}  // namespace
}  // namespace salus::attachment
