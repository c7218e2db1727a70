#include "cli/memory_answer.h"

#include <gtest/gtest.h>

namespace salus::cli {
namespace {

TEST(MemoryAnswer, IsReadFromJson) {
    const MemoryAnswer answer = memory_answer_from(
        R"({"job": 3, "name": "train", "clients": 2, "goes_bytes": 1048576, "stays_bytes": 2097152, "stays_because": "so"})");
    EXPECT_EQ(answer.job, 3u);
    EXPECT_EQ(answer.name, "train");
    EXPECT_EQ(answer.clients, 2u);
    EXPECT_EQ(answer.goes, mebibytes(1));
    EXPECT_EQ(answer.stays, mebibytes(2));
    EXPECT_EQ(answer.stays_because, "so");
    EXPECT_EQ(memory_answer_from("no JSON").job, 0u);
    EXPECT_EQ(memory_answer_from(R"({"job": "3", "clients": 1.5})").job, 0u);
}

TEST(MemoryAnswer, SaysWhatGoesAndWhatStays) {
    const auto said = [](std::uint64_t clients, Bytes goes, Bytes stays, const char* because) {
        return suspended_text({3, "train", clients, goes, stays, because});
    };
    EXPECT_EQ(said(0, {}, {}, ""), "is suspended; it begins when it is resumed");
    EXPECT_EQ(said(1, {}, {}, ""), "is suspended after its current iteration");
    EXPECT_EQ(said(1, gibibytes(1), {}, ""), "is suspended after its current iteration; 1.0 GiB leave the device");
    EXPECT_EQ(
        said(1, {}, gibibytes(1), "several threads use its memory"),
        "is suspended after its current iteration, but its 1.0 GiB stay on the device: several threads use its memory");
    EXPECT_EQ(said(2, gibibytes(1), gibibytes(2), ""),
              "is suspended after its current iteration; 1.0 GiB leave the device, 2.0 GiB stay on the device");
}

TEST(MemoryAnswer, SaysWhatBecameOfAnIdleJob) {
    const MemoryAnswer goes{3, "notebook", 1, gibibytes(1), {}, ""};
    EXPECT_EQ(idle_text(goes, gibibytes(1), false), "idles; 1.0 GiB are on the host");
    EXPECT_EQ(idle_text(goes, {}, true), "idles; 1.0 GiB still leave the device");
    EXPECT_EQ(idle_text(goes, {}, false), "idles, but its 1.0 GiB stay on the device: it may use them at any moment");
    const MemoryAnswer stays{3, "notebook", 1, {}, gibibytes(2), "paging of this device is off"};
    EXPECT_EQ(idle_text(stays, {}, false), "idles, but its 2.0 GiB stay on the device: paging of this device is off");
    EXPECT_EQ(idle_text(stays, gibibytes(1), false),
              "idles; 1.0 GiB are on the host, 2.0 GiB stay on the device: paging of this device is off");
    EXPECT_EQ(idle_text({3, "x", 0, gibibytes(1), {}, ""}, {}, false), "does not idle; its memory stays on the device");
    EXPECT_EQ(idle_text({3, "x", 0, {}, {}, ""}, {}, false), "has no memory on the device");
    EXPECT_EQ(idle_text({3, "x", 0, {}, {}, ""}, gibibytes(1), false), "does not idle; 1.0 GiB are on the host already");
    EXPECT_EQ(idle_text({3, "x", 1, {}, {}, ""}, {}, false), "has no memory on the device");
}

}  // namespace
}  // namespace salus::cli
