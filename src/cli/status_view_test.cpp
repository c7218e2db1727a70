#include "cli/status_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/characters.h"
#include "base/text.h"
#include "cli/columns.h"
#include "core/types.h"

namespace salus::cli {
namespace {

using nlohmann::json;

json resnet() {
    return {{"job", 3},
            {"client", 0},
            {"name", "resnet50"},
            {"pid", 4242},
            {"user", 1000},
            {"attached_s", 20.0},
            {"state", "running"},
            {"waits_for", ""},
            {"lane", 1},
            {"iterations", 12},
            {"iterations_total", 100},
            {"estimate", "stated"},
            {"left_s", 146.7},
            {"attained_s", 5.0},
            {"busy_s", 4.9},
            {"waited_s", 130.0},
            {"waiting_now_s", 0.0},
            {"persistent", 512ll << 20},
            {"ephemeral", 6ll << 30}};
}

json waiting_vae() {
    json job = resnet();
    job.update({{"job", 4},
                {"client", 1},
                {"name", "vae"},
                {"state", "waiting"},
                {"waits_for", "turn"},
                {"behind", "resnet50"},
                {"behind_job", 3},
                {"waiting_now_s", 12.0}});
    for (const char* key : {"iterations_total", "estimate", "left_s"}) job.erase(key);
    return job;
}

json starting() {
    return {{"job", 12}, {"name", "late"}, {"pid", 7}, {"user", 0}, {"state", "starting"}, {"attached_s", 0.5}};
}

json status_of(std::vector<json> jobs) {
    return {{"service",
             {{"pid", 77},
              {"version", "0.1.0"},
              {"socket", "/run/salus/socket"},
              {"uptime_s", 125.0},
              {"device", "host"},
              {"policy", "fair"},
              {"paging", true},
              {"min_turn_ms", 5.0},
              {"capacity", 16ll << 30},
              {"reserved", 8ll << 30},
              {"held_by_orphans", 0},
              {"trace", {{"path", "/var/lib/salus/trace"}, {"recording", true}, {"bytes", 3 << 20}}},
              {"statistics",
               {{"turns", 1200},
                {"switches", 340},
                {"page_outs", 2},
                {"page_ins", 1},
                {"paged_bytes", 1ll << 30},
                {"reserved_peak", 9ll << 30},
                {"refusals", 0}}},
              {"lanes",
               {{{"lane", 1}, {"size", 6ll << 30}, {"charge", 6ll << 30}, {"holder", 0}},
                {{"lane", 2}, {"size", 1ll << 30}, {"charge", 2ll << 30}}}}}},
            {"jobs", jobs}};
}

// ---------------------------------------------------------------------------------------------------------------- ps

TEST(FormatPs, AlignsItsColumnsAndSaysWhyJobsWait) {
    EXPECT_EQ(
        format_ps(status_of({resnet(), waiting_vae(), starting()})),
        "JOB  NAME      STATE     LANE  ITERATIONS   IT/S    LEFT  SHARE        P        T  WAITED   PID  WHY\n"
        "  3  resnet50  running      1      12/100  0.600  2m 27s   25 %  512 MiB  6.0 GiB  2m 10s  4242\n"
        "  4  vae       waiting      1          12  0.600       -   25 %  512 MiB  6.0 GiB  2m 10s  4242  waits for its "
        "turn, after resnet50 (job 3), for 12 s\n"
        " 12  late      starting     -           -      -       -      -        -        -       -     7  has not asked for "
        "the device yet\n");
}

TEST(FormatPs, MarksALengthThatIsFromAnEarlierRun) {
    json job = resnet();
    job["estimate"] = "history";
    EXPECT_NE(format_ps(status_of({job})).find(" 12/~100 "), std::string::npos);
    job.erase("iterations_total");
    EXPECT_EQ(format_ps(status_of({job})).find('~'), std::string::npos);
}

TEST(FormatPs, NoJobs) {
    EXPECT_EQ(format_ps(status_of({})), "no jobs\n");
    EXPECT_EQ(format_ps(json::object()), "no jobs\n");
    EXPECT_EQ(format_ps(json()), "no jobs\n");
}

TEST(FormatPs, NamesOfOthersDoNotMoveTheCursor) {
    json job = resnet();
    job["name"] = "a\x1b[2J\nb\xc2\x9b\x7f";
    EXPECT_NE(format_ps(status_of({job})).find(" a?[2J?b?? "), std::string::npos);
}

TEST(FormatPs, ColumnsStayAlignedBesideWideNames) {
    json wide = resnet();
    wide["name"] = "変分";
    json accented = resnet();
    accented["name"] = "é";
    const std::string text = format_ps(status_of({wide, accented}));
    const auto lines = split(text, '\n');
    EXPECT_EQ(width_of(lines[1].substr(0, lines[1].find("running"))), 11);
    EXPECT_EQ(width_of(lines[2].substr(0, lines[2].find("running"))), 11);
}

TEST(FormatPs, WhatIsNotAsItShouldBeShowsAsMissing) {
    const json whole = resnet();
    for (const auto& [key, value] : whole.items()) {
        for (const json& odd : {json(), json("x"), json(-1), json(1e300), json::array({1}), json::object(), json(true)}) {
            json job = waiting_vae();
            job[key] = odd;
            json status = status_of({job});
            EXPECT_FALSE(format_ps(status).empty());
            Rates rates;
            rates.update(status);
            status["service"]["uptime_s"] = 126.0;
            rates.update(status);
            rates.of(job);
            status["service"][key] = odd;
            EXPECT_FALSE(format_status(status).empty());
        }
    }
    EXPECT_FALSE(format_ps({{"jobs", {1, "x", nullptr}}}).empty());
    EXPECT_FALSE(format_status(json::array()).empty());
}

// --------------------------------------------------------------------------------------------------------- wait_text

TEST(WaitText, EveryReasonHasWordsOfItsOwn) {
    std::vector<std::string> seen;
    for (auto i = static_cast<unsigned>(WaitReason::kTurn); i <= static_cast<unsigned>(WaitReason::kRefused); ++i) {
        const std::string name(name_of(static_cast<WaitReason>(i)));
        ASSERT_NE(name, "?");
        const std::string text =
            wait_text({{"state", "waiting"}, {"waits_for", name}, {"behind", "vae"}, {"behind_job", 4}});
        EXPECT_TRUE(text.starts_with("waits") || text.starts_with("is ")) << text;
        EXPECT_TRUE(name == "memory" || text != "waits for " + name) << name << " has no words";
        EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0) << text;
        seen.push_back(text);
    }
    EXPECT_EQ(name_of(static_cast<WaitReason>(static_cast<unsigned>(WaitReason::kRefused) + 1)), "?") << "a new reason";
}

TEST(WaitText, NamesWhoIsInTheWay) {
    const auto text = [](const char* reason, bool known) {
        json job = {{"state", "waiting"}, {"waits_for", reason}};
        if (known) job.update({{"behind", "vae"}, {"behind_job", 4}});
        return wait_text(job);
    };
    EXPECT_EQ(text("turn", true), "waits for its turn, after vae (job 4)");
    EXPECT_EQ(text("turn", false), "waits for its turn");
    EXPECT_EQ(text("stopped-holder", true),
              "waits: its lane is held by vae (job 4), which does nothing inside an iteration");
    EXPECT_EQ(text("stopped-holder", false),
              "waits: its lane is held by another job, which does nothing inside an iteration");
    EXPECT_EQ(text("profiling", true), "waits for the first iterations of vae (job 4)");
    EXPECT_EQ(text("profiling", false), "waits for room for its first iterations");
    EXPECT_EQ(wait_text({{"waits_for", "turn"}, {"behind", "?"}}), "waits for its turn, after another job");
}

TEST(WaitText, StatesThatSayItThemselves) {
    EXPECT_EQ(wait_text({{"state", "running"}, {"waits_for", ""}}), "");
    EXPECT_EQ(wait_text({{"state", "idle"}, {"waits_for", ""}}), "");
    EXPECT_EQ(wait_text({{"state", "paused"}, {"waits_for", "paused"}}), "is paused: salus resume lets it go on");
    EXPECT_EQ(wait_text({{"state", "stopped"}, {"waits_for", "paused"}}), "is stopped, by a signal or a debugger");
    EXPECT_EQ(wait_text({{"state", "growing"}, {"waits_for", ""}}), "waits in mid-iteration for more memory");
    EXPECT_EQ(wait_text({{"state", "waiting"}, {"waits_for", "godot"}}), "waits for godot");
    EXPECT_EQ(wait_text(json()), "");
}

// ------------------------------------------------------------------------------------------------------------ status

TEST(FormatStatus, SaysHowTheServiceIs) {
    EXPECT_EQ(format_status(status_of({resnet()})),
              "service   salusd 0.1.0, pid 77, up 2m 05s\n"
              "socket    /run/salus/socket\n"
              "policy    fair, turns of 5 ms or more, paging on\n"
              "device    host\n"
              "memory    8.0 GiB of 16.0 GiB reserved, 9.0 GiB at the most so far\n"
              "lanes     1: 6.0 GiB, held by resnet50 (job 3)\n"
              "          2: 1.0 GiB (2.0 GiB until all have let go), free\n"
              "jobs      1\n"
              "turns     1200, with 340 switches of job\n"
              "paging    2 page-outs, 1 page-ins, 1.0 GiB moved\n"
              "trace     /var/lib/salus/trace, 3.0 MiB, being recorded\n");
}

TEST(FormatStatus, AGpuHasNoPaging) {
    json status = status_of({});
    status["service"]["device"] = "cuda";
    const std::string text = format_status(status);
    EXPECT_NE(text.find("policy    fair, turns of 5 ms or more, no paging on a GPU\n"), std::string::npos) << text;
}

TEST(FormatStatus, SaysWhatIsUnusual) {
    json status = status_of({});
    status["service"]["held_by_orphans"] = 1 << 30;
    status["service"]["trace"]["recording"] = false;
    status["service"]["lanes"] = json::array();
    status["service"]["statistics"]["fallbacks"] = 1;
    const std::string text = format_status(status);
    EXPECT_NE(text.find("          1.0 GiB still held by jobs of an earlier service\n"), std::string::npos) << text;
    EXPECT_NE(text.find("lanes     none\n"), std::string::npos) << text;
    EXPECT_NE(text.find("fallback  the policy misbehaved"), std::string::npos) << text;
    EXPECT_NE(text.find("no longer recorded\n"), std::string::npos) << text;
}

// ------------------------------------------------------------------------------------------------------------- rates

class RatesTest : public testing::Test {
protected:
    Rate at(double uptime_s, double iterations, double busy_s, const char* state = "running") {
        json job = resnet();
        job.update({{"iterations", iterations}, {"attained_s", 0.0}, {"busy_s", busy_s}, {"state", state}});
        json status = status_of({job});
        status["service"]["uptime_s"] = uptime_s;
        status["service"]["statistics"]["turns"] = 10 * uptime_s;
        rates.update(status);
        return rates.of(job);
    }
    Rates rates;
};

TEST_F(RatesTest, SinceTheLastSnapshotAndOnAverageAtFirst) {
    const Rate first = at(100, 12, 5);
    EXPECT_DOUBLE_EQ(first.iterations_per_s.value(), 0.6);
    EXPECT_DOUBLE_EQ(first.share.value(), 0.25);
    EXPECT_FALSE(rates.turns_per_s());
    const Rate second = at(102, 52, 6);
    EXPECT_DOUBLE_EQ(second.iterations_per_s.value(), 20);
    EXPECT_DOUBLE_EQ(second.share.value(), 0.5);
    EXPECT_DOUBLE_EQ(rates.turns_per_s().value(), 10);
    const Rate same = at(102, 52, 6);
    EXPECT_DOUBLE_EQ(same.iterations_per_s.value(), 20) << "the same snapshot again";
    const Rate waits = at(103, 52, 6, "waiting");
    EXPECT_DOUBLE_EQ(waits.iterations_per_s.value(), 0);
    EXPECT_DOUBLE_EQ(waits.share.value(), 0);
}

TEST_F(RatesTest, IterationsLongerThanTheIntervalDoNotFlicker) {
    at(100, 10, 50);
    at(105, 11, 55);
    for (const double s : {106.0, 107.0, 108.0, 109.0}) {
        EXPECT_DOUBLE_EQ(at(s, 11, 55).iterations_per_s.value(), 0.2);
        EXPECT_DOUBLE_EQ(rates.of(resnet()).share.value(), 1);
    }
    EXPECT_DOUBLE_EQ(at(110, 12, 60).iterations_per_s.value(), 0.2);
    EXPECT_DOUBLE_EQ(at(130, 12, 60).iterations_per_s.value(), 0.05) << "this one takes longer";
}

TEST_F(RatesTest, TimeThatWasCountedLateIsNoMoreThanAll) {
    at(100, 10, 50);
    EXPECT_DOUBLE_EQ(at(101, 11, 53).share.value(), 1);
}

TEST_F(RatesTest, AnotherServiceStartsAnew) {
    at(100, 10, 50);
    at(101, 20, 51);
    EXPECT_DOUBLE_EQ(at(1, 20, 0).share.value(), 0);
    EXPECT_FALSE(rates.turns_per_s());
    EXPECT_DOUBLE_EQ(at(2, 25, 0.5).iterations_per_s.value(), 5);
}

TEST(AverageRate, WhatTheServiceCountsMayBeLate) {
    json job = resnet();
    job.update({{"attained_s", 1.0}, {"busy_s", 19.0}});
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.95);
    EXPECT_DOUBLE_EQ(average_rate(job).iterations_per_s.value(), 0.6);
}

TEST(AverageRate, WhatWasDoneUnderTheLastServiceDoesNotCount) {
    json job = resnet();
    job.update({{"iterations", 4000}, {"busy_s", 100.0}, {"attained_s", 2.0}, {"attached_s", 5.0}});
    EXPECT_FALSE(average_rate(job).iterations_per_s) << "how many are new is not known";
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.4);
    job["iterations_before"] = 3900;
    EXPECT_DOUBLE_EQ(average_rate(job).iterations_per_s.value(), 20);
    EXPECT_DOUBLE_EQ(average_rate(job).share.value(), 0.5) << "25 ms each";
}

TEST_F(RatesTest, JobsThatAreNotKnownHaveNone) {
    at(100, 10, 50);
    EXPECT_FALSE(rates.of(waiting_vae()).share);
    EXPECT_FALSE(rates.of(starting()).iterations_per_s);
    EXPECT_FALSE(average_rate(starting()).iterations_per_s);
}

// ------------------------------------------------------------------------------------------------------------ figures

TEST(Figures, SecondsAndRates) {
    EXPECT_EQ(format_seconds(0), "0.0 s");
    EXPECT_EQ(format_seconds(99.94), "99.9 s");
    EXPECT_EQ(format_seconds(99.96), "1m 40s");
    EXPECT_EQ(format_seconds(3599.4), "59m 59s");
    EXPECT_EQ(format_seconds(3599.6), "1h 00m");
    EXPECT_EQ(format_seconds(47.99 * 3600), "47h 59m");
    EXPECT_EQ(format_seconds(50 * 3600), "2d 2h");
    EXPECT_EQ(format_seconds(-1), "-");
    EXPECT_EQ(format_rate(0), "0");
    EXPECT_EQ(format_rate(0.0421), "0.042");
    EXPECT_EQ(format_rate(0.9999), "1.00");
    EXPECT_EQ(format_rate(9.996), "10.0");
    EXPECT_EQ(format_rate(99.96), "100");
}

TEST(Columns, WidthCutAndPad) {
    EXPECT_EQ(width_of("abc"), 3);
    EXPECT_EQ(width_of("é変e\u0301"), 4);
    EXPECT_EQ(width_of("\xff\xc3"), 2) << "what is no UTF-8 counts byte by byte";
    EXPECT_EQ(cut("変分法", 5), "変分");
    EXPECT_EQ(cut("abc", -1), "");
    EXPECT_EQ(shorten("resnet50", 6, "…"), "resne…");
    EXPECT_EQ(shorten("resnet", 6, "…"), "resnet");
    EXPECT_EQ(shorten("resnet", 0, "…"), "");
    EXPECT_EQ(pad("é", 3, Align::kRight), "  é");
    EXPECT_EQ(printable("\xc0\x9b\xed\xa0\x80"), "?????") << "overlong, surrogate";
    EXPECT_EQ(bar(0.5, 4, false), "##..");
    EXPECT_EQ(bar(7, 2, false), "##");
    EXPECT_EQ(bar(-1, 2, true), "░░");
}

}  // namespace
}  // namespace salus::cli
