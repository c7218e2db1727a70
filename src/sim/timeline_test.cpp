#include "sim/timeline.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"
#include "policies/table.h"
#include "sim/recorded_run.h"
#include "sim/trace_recorder.h"
#include "sim/workloads.h"

namespace salus::sim {
namespace {

Segment segment(std::uint32_t client, LaneId lane, Duration start, Duration end) {
    return {ClientId{client}, lane, Instant{start.ns}, Instant{end.ns}};
}

Segment segment_s(std::uint32_t client, LaneId lane, std::int64_t start_s, std::int64_t end_s) {
    return segment(client, lane, seconds(start_s), seconds(end_s));
}

std::vector<SimulatedJob> jobs_named(std::initializer_list<std::string> names) {
    std::vector<SimulatedJob> jobs;
    for (const std::string& name : names) jobs.emplace_back().name = name;
    return jobs;
}

std::vector<SimulatedJob> numbered_jobs(std::size_t count) {
    std::vector<SimulatedJob> jobs(count);
    for (std::size_t i = 0; i < count; ++i) jobs[i].name = std::to_string(i);
    return jobs;
}

std::vector<nlohmann::json> events_of(std::span<const Panel> panels, std::span<const SimulatedJob> jobs,
                                      std::string_view ph) {
    std::vector<nlohmann::json> events;
    const auto trace = nlohmann::json::parse(timeline_chrome_json(panels, jobs));
    for (const auto& event : trace.at("traceEvents")) {
        if (event.at("ph") == ph) events.push_back(event);
    }
    return events;
}

/// (job, start in s) -> row, from 0.
std::map<std::pair<std::string, double>, int> rows_of(const std::vector<Segment>& segments) {
    std::map<std::pair<std::string, double>, int> rows;
    const Panel panel{"p", segments};
    for (const auto& event : events_of({&panel, 1}, numbered_jobs(10), "X")) {
        rows[{event.at("name").get<std::string>(), event.at("ts").get<double>() / 1e6}] = event.at("tid").get<int>() - 1;
    }
    return rows;
}

std::size_t count_of(std::string_view text, std::string_view part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
    return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// Every tag is closed in order, values are quoted and contain nothing that needs escaping, and there is no stray < or &.
bool is_well_formed(const std::string& xml) {
    static const std::regex tag(R"re(<(/?)([a-z]+)((?: [a-zA-Z:-]+="")*)(/?)>)re");
    static const std::regex text(R"re((?:[^<>&]|&(?:amp|lt|gt|quot);)*)re");
    std::vector<std::string> open;
    auto at = xml.cbegin();
    while (at != xml.cend()) {
        const auto left = std::find(at, xml.cend(), '<');
        if (!std::regex_match(at, left, text)) return false;
        std::smatch found;
        if (left == xml.cend()) break;
        const auto right = std::find(left, xml.cend(), '>');
        if (right == xml.cend()) return false;
        std::string bare;  // without the values, because a long path is too much for std::regex
        bool quoted = false;
        for (const char c : std::string(left, right + 1)) {
            if (quoted && (c == '<' || c == '&')) return false;
            if (c == '"') quoted = !quoted;
            if (!quoted || c == '"') bare += c;
        }
        if (!std::regex_match(bare, found, tag)) return false;
        if (found[1].length() > 0) {
            if (open.empty() || open.back() != found[2]) return false;
            open.pop_back();
        } else if (found[4].length() == 0) {
            open.push_back(found[2]);
        }
        at = right + 1;
    }
    return open.empty();
}

std::string svg_of(std::vector<Segment> segments, std::span<const SimulatedJob> jobs) {
    const Panel panel{"p", std::move(segments)};
    return timeline_svg({&panel, 1}, jobs);
}

/// Clients take turns in one lane, over and over: client i for turns[i].
std::vector<Segment> taking_turns(std::span<const Duration> turns, Duration pause, std::size_t count) {
    std::vector<Segment> segments;
    Duration now;
    for (std::size_t i = 0; i < count; ++i) {
        const Duration turn = turns[i % turns.size()];
        segments.push_back(segment(static_cast<std::uint32_t>(i % turns.size()), LaneId{0}, now, now + turn));
        now += turn + pause;
    }
    return segments;
}

// ------------------------------------------------------------------------------------------------------------ recorder

TEST(TimelineRecorder, MergesTurnsOfOneClientThatFollowEachOther) {
    TimelineRecorder recorder;
    recorder.ran(segment(0, LaneId{0}, milliseconds(0), milliseconds(10)));
    recorder.ran(segment(1, LaneId{1}, milliseconds(0), milliseconds(10)));  // another lane's turn does not come between
    recorder.ran(segment(0, LaneId{0}, milliseconds(11), milliseconds(20)));
    recorder.ran(segment(2, LaneId{0}, milliseconds(20), milliseconds(30)));
    recorder.ran(segment(2, LaneId{0}, milliseconds(30), milliseconds(40)));
    ASSERT_EQ(recorder.segments().size(), 3u);
    EXPECT_EQ(recorder.segments()[0].start, Instant{});
    EXPECT_EQ(recorder.segments()[0].end, Instant{milliseconds(20).ns});
    EXPECT_EQ(recorder.segments()[1].client, ClientId{1});
    EXPECT_EQ(recorder.segments()[2].end, Instant{milliseconds(40).ns});
}

TEST(TimelineRecorder, KeepsApartWhatIsNotOneTurn) {
    TimelineRecorder recorder;
    recorder.ran(segment(0, LaneId{0}, milliseconds(0), milliseconds(10)));
    recorder.ran(segment(0, LaneId{0}, milliseconds(11) + nanoseconds(1), milliseconds(20)));  // a longer pause
    recorder.ran(segment(1, LaneId{0}, milliseconds(20), milliseconds(30)));                   // another client
    recorder.ran(segment(0, LaneId{0}, milliseconds(30), milliseconds(40)));                   // another came between
    recorder.ran(segment(0, LaneId{1}, milliseconds(40), milliseconds(50)));                   // another lane
    recorder.ran(segment(0, kNoLane, milliseconds(50), milliseconds(60)));
    recorder.ran(segment(1, LaneId{1}, milliseconds(60), milliseconds(60)));  // nothing
    EXPECT_EQ(recorder.segments().size(), 6u);
}

// ---------------------------------------------------------------------------------------------------------------- rows

TEST(TimelineRows, ALaneOpenedAnewTakesAFreeRow) {
    const auto rows = rows_of({segment_s(0, LaneId{0}, 0, 10), segment_s(1, LaneId{1}, 5, 30),
                               segment_s(2, LaneId{7}, 10, 20), segment_s(3, LaneId{8}, 30, 40)});
    EXPECT_EQ(rows.at({"0", 0}), 0);
    EXPECT_EQ(rows.at({"1", 5}), 1);
    EXPECT_EQ(rows.at({"2", 10}), 0);
    EXPECT_EQ(rows.at({"3", 30}), 0);
}

TEST(TimelineRows, ALaneKeepsItsRowWhileItPauses) {
    const auto rows =
        rows_of({segment_s(1, LaneId{1}, 20, 30), segment_s(0, LaneId{0}, 40, 50), segment_s(0, LaneId{0}, 0, 10)});
    EXPECT_EQ(rows.at({"0", 0}), 0);
    EXPECT_EQ(rows.at({"1", 20}), 1);
    EXPECT_EQ(rows.at({"0", 40}), 0);
}

TEST(TimelineRows, AProfilingTurnGoesWhereNothingRuns) {
    const auto rows =
        rows_of({segment_s(0, LaneId{0}, 0, 10), segment_s(0, LaneId{0}, 20, 30), segment_s(1, kNoLane, 10, 20),
                 segment_s(2, kNoLane, 15, 21), segment_s(3, kNoLane, 25, 26), segment_s(4, kNoLane, 40, 50)});
    EXPECT_EQ(rows.at({"1", 10}), 0);  // fits into the pause
    EXPECT_EQ(rows.at({"2", 15}), 1);  // does not
    EXPECT_EQ(rows.at({"3", 25}), 1);
    EXPECT_EQ(rows.at({"4", 40}), 0);
}

TEST(TimelineRows, HoldOneTurnAtATimeInRealRuns) {
    const std::vector<SimulatedJob> jobs = make_workload("uniform:40", 3).value();
    for (const Policy* policy : all_policies()) {
        SimulationOptions options;
        options.engine.capacity = gibibytes(8);
        Simulation simulation(options, jobs, *policy, fallback_policy());
        TimelineRecorder recorder;
        simulation.observe(recorder);
        simulation.run();
        const Panel panel{"p", recorder.segments()};
        std::map<int, double> end_us;
        std::size_t turns = 0;
        for (const auto& event : events_of({&panel, 1}, jobs, "X")) {
            double& end = end_us[event.at("tid").get<int>()];
            EXPECT_GE(event.at("ts").get<double>(), end - 1e-3);
            end = event.at("ts").get<double>() + event.at("dur").get<double>();
            ++turns;
        }
        EXPECT_EQ(turns, recorder.segments().size());
        EXPECT_TRUE(is_well_formed(timeline_svg({&panel, 1}, jobs)));
    }
}

// ---------------------------------------------------------------------------------------------------------------- JSON

TEST(TimelineChromeJson, TellsNamesAndTimesExactly) {
    const std::string odd = "a\"b\\c\n\x01<&\xc3\xa9";
    const std::vector<SimulatedJob> jobs = jobs_named({odd, "second"});
    const std::vector<Panel> panels{{"fifo \"1\"", {segment(0, LaneId{4}, nanoseconds(1'234'567), nanoseconds(1'234'568))}},
                                    {"pack", {segment_s(1, LaneId{0}, 1, 2), segment_s(0, kNoLane, 1, 3)}}};
    const auto turns = events_of(panels, jobs, "X");
    ASSERT_EQ(turns.size(), 3u);
    EXPECT_EQ(turns[0].at("name"), odd);
    EXPECT_EQ(turns[0].at("pid"), 1);
    EXPECT_DOUBLE_EQ(turns[0].at("ts").get<double>(), 1234.567);
    EXPECT_DOUBLE_EQ(turns[0].at("dur").get<double>(), 0.001);
    EXPECT_EQ(turns[1].at("pid"), 2);
    EXPECT_EQ(turns[1].at("cat"), "turn");
    EXPECT_EQ(turns[2].at("cat"), "profiling");
    std::map<std::string, std::vector<std::string>> names;
    for (const auto& event : events_of(panels, jobs, "M")) {
        if (event.at("args").contains("name")) names[event.at("name")].push_back(event.at("args").at("name"));
    }
    EXPECT_EQ(names["process_name"], (std::vector<std::string>{"fifo \"1\"", "pack"}));
    EXPECT_EQ(names["thread_name"], (std::vector<std::string>{"lane 1", "lane 1", "lane 2"}));
}

TEST(TimelineChromeJson, OfNothingIsWellFormed) {
    EXPECT_TRUE(nlohmann::json::parse(timeline_chrome_json({}, {})).at("traceEvents").empty());
}

// ----------------------------------------------------------------------------------------------------------------- SVG

TEST(TimelineSvg, CheckerOfWellFormednessCanFail) {
    EXPECT_TRUE(is_well_formed("<a b=\"c\"><d/>x &amp; y</a>\n"));
    for (const std::string wrong : {"<a>", "<a><b></a></b>", "<a>&</a>", "<a>&x;</a>", "<a b=c/>", "<a b=\"<\"/>", "<a"}) {
        EXPECT_FALSE(is_well_formed(wrong)) << wrong;
    }
}

TEST(TimelineSvg, EscapesNames) {
    const std::vector<SimulatedJob> jobs = jobs_named({"<b>&\"x\"\x01</b>"});
    const std::vector<Panel> panels{{"1 < 2 & \"3\"", {segment_s(0, LaneId{0}, 0, 10)}}};
    const std::string svg = timeline_svg(panels, jobs);
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_EQ(svg.find("<b>"), std::string::npos);
    EXPECT_EQ(count_of(svg, "&lt;b&gt;&amp;&quot;x&quot; &lt;/b&gt;"), 3u);  // label, tooltip, legend
    EXPECT_NE(svg.find("1 &lt; 2 &amp; &quot;3&quot;"), std::string::npos);
}

TEST(TimelineSvg, OfNothingIsWellFormed) {
    EXPECT_TRUE(is_well_formed(timeline_svg({}, {})));
    EXPECT_TRUE(is_well_formed(svg_of({}, jobs_named({"a"}))));
}

TEST(TimelineSvg, APanelHasATitleAndABandForEachRow) {
    const std::vector<SimulatedJob> jobs = jobs_named({"a", "b"});
    const std::vector<Panel> panels{{"one", {segment_s(0, LaneId{0}, 0, 5), segment_s(1, LaneId{1}, 5, 9)}},
                                    {"two", {segment_s(0, LaneId{0}, 0, 5), segment_s(1, LaneId{1}, 4, 9)}}};
    const std::string svg = timeline_svg(panels, jobs);
    EXPECT_NE(svg.find(">one</text>"), std::string::npos);
    EXPECT_LT(svg.find(">one</text>"), svg.find(">two</text>"));
    EXPECT_EQ(count_of(svg, ">lane 1</text>"), 2u);
    EXPECT_EQ(count_of(svg, ">lane 2</text>"), 1u);
}

TEST(TimelineSvg, ATurnIsARectangleWithTooltipAndALabelThatFits) {
    const std::vector<SimulatedJob> jobs = jobs_named({"7 resnet", "8 resnet", "9 resnet"});
    const std::string svg =
        svg_of({segment_s(0, LaneId{0}, 0, 80), segment_s(1, LaneId{0}, 80, 83), segment_s(2, LaneId{0}, 99, 100)}, jobs);
    EXPECT_NE(svg.find("x=\"68.00\" y=\"36\" width=\"883.20\""), std::string::npos);
    EXPECT_NE(svg.find("<title>7 resnet\n0.000 s to 80.000 s</title>"), std::string::npos);
    EXPECT_NE(svg.find(">7 resnet</text>"), std::string::npos);
    EXPECT_NE(svg.find(">8</text>"), std::string::npos);  // room for the first word only
    EXPECT_NE(svg.find("<title>9 resnet\n99.000 s to 100.000 s</title>"), std::string::npos);
    EXPECT_EQ(svg.find(">9</text>"), std::string::npos);
}

TEST(TimelineSvg, AJobHasOneColourAndItsOwn) {
    std::vector<Panel> panels(2);
    for (std::uint32_t i = 0; i < 100; ++i) {
        panels[0].segments.push_back(segment_s(i, LaneId{0}, i, i + 1));
        panels[1].segments.push_back(segment_s(99 - i, LaneId{0}, i, i + 1));
    }
    const std::string svg = timeline_svg(panels, numbered_jobs(100));
    std::map<std::string, std::set<std::string>> jobs_of_colour;
    for (const auto& match : matches(svg, std::regex("fill=\"(#[0-9a-f]{6})\"><title>([0-9]+)\n"))) {
        jobs_of_colour[match[1]].insert(match[2]);
    }
    EXPECT_EQ(jobs_of_colour.size(), 100u);
    for (const auto& [colour, jobs] : jobs_of_colour) EXPECT_EQ(jobs.size(), 1u) << colour;
}

TEST(TimelineSvg, NarrowTurnsBecomeStacksOfShares) {
    const std::vector<Duration> turns{milliseconds(30), milliseconds(10)};
    const std::string svg = svg_of(taking_turns(turns, {}, 100'000), numbered_jobs(2));
    EXPECT_NE(svg.find("M68 60h1104v72h-1104z\"><title>0\n"), std::string::npos);  // three quarters, below
    EXPECT_NE(svg.find("M68 36h1104v24h-1104z\"><title>1\n"), std::string::npos);
    EXPECT_NE(svg.find("50000 turns"), std::string::npos);
}

TEST(TimelineSvg, IdleTimeStaysWhiteInStacks) {
    const std::vector<Duration> turns{milliseconds(10)};
    const std::string svg = svg_of(taking_turns(turns, milliseconds(30), 100'000), numbered_jobs(1));
    const auto areas = matches(svg, std::regex("h[0-9.]+v([0-9]+)h"));
    ASSERT_FALSE(areas.empty());
    for (const auto& area : areas) EXPECT_NEAR(std::stoi(area[1]), 24, 1);
}

TEST(TimelineSvg, SmallSharesAreDrawnAsOthers) {
    const std::vector<Duration> few(8, milliseconds(10));
    EXPECT_EQ(svg_of(taking_turns(few, {}, 100'000), numbered_jobs(8)).find("other jobs"), std::string::npos);
    std::vector<Duration> many(60, milliseconds(1));
    many[37] = milliseconds(60);
    const std::string svg = svg_of(taking_turns(many, {}, 100'000), numbered_jobs(60));
    EXPECT_EQ(count_of(svg, "<title>other jobs</title>"), 1u);
    EXPECT_LE(count_of(svg, "</title></path>"), 25u);  // the choice soon becomes steady
    const auto cells = matches(svg, std::regex("M([0-9.]+) [0-9]+h([0-9.]+)v"));
    const auto in_column = std::count_if(cells.begin(), cells.end(), [](const std::smatch& cell) {
        return std::stod(cell[1]) <= 601 && 601 < std::stod(cell[1]) + std::stod(cell[2]);
    });
    EXPECT_LE(in_column, 17);  // 96 px / 6, and the others
    EXPECT_GE(in_column, 10);
    EXPECT_NE(svg.find("<title>37\n"), std::string::npos);
}

TEST(TimelineSvg, ALoneShortTurnCanBeSeen) {
    const std::string svg =
        svg_of({segment(0, LaneId{0}, seconds(50), seconds(50) + microseconds(1)), segment_s(1, LaneId{0}, 90, 100)},
               numbered_jobs(2));
    EXPECT_NE(svg.find("M620 36h1v56h-1z"), std::string::npos);
}

TEST(TimelineSvg, StaysSmallHoweverOftenAPolicySwitches) {
    Random random(5);
    std::vector<Panel> panels(7, Panel{"p", {}});
    for (Panel& panel : panels) {
        Duration now;
        for (int i = 0; i < 100'000; ++i) {
            const Duration turn = microseconds(random.integer(1'000, 40'000));
            panel.segments.push_back(segment(static_cast<std::uint32_t>(random.below(100)), LaneId{0}, now, now + turn));
            now += turn;
        }
    }
    const std::vector<SimulatedJob> jobs = numbered_jobs(100);
    const auto size = [&](std::size_t count) { return timeline_svg(std::span(panels).first(count), jobs).size(); };
    EXPECT_LT(size(1), 200'000u);
    EXPECT_LT(size(7), 1'500'000u);
}

TEST(TimelineSvg, StaysSmallWithManyRowsOfTurnsJustWideEnough) {
    std::vector<Segment> segments;
    for (std::uint32_t lane = 0; lane < 40; ++lane) {
        for (std::uint32_t i = 0; i < 1'000; ++i) segments.push_back(segment_s(i % 100, LaneId{lane}, i, i + 1));
    }
    EXPECT_LT(svg_of(segments, numbered_jobs(100)).size(), 1'500'000u);
}

TEST(TimelineSvg, TicksAreRoundAndInPlace) {
    struct Case {
        Duration end;
        std::string second;
        std::string last;
    };
    const std::vector<Case> cases{
        {milliseconds(900), "0.1 s", "0.9 s"}, {seconds(100), "10 s", "100 s"},          {seconds(150), "15 s", "150 s"},
        {seconds(473), "1 min", "7 min"},      {minutes(100), "10 min", "100 min"},      {minutes(305), "0.5 h", "5 h"},
        {minutes(60 * 20), "2 h", "20 h"},     {minutes(60 * 24 * 30), "96 h", "672 h"},
    };
    const std::regex tick("class=\"tick\" x=\"([0-9.]+)\" y=\"[0-9]+\">([^<]+)<");
    for (const Case& c : cases) {
        const std::string svg = svg_of({segment(0, LaneId{0}, {}, c.end)}, numbered_jobs(1));
        const auto ticks = matches(svg, tick);
        ASSERT_GE(ticks.size(), 2u);
        EXPECT_LE(ticks.size(), 13u);
        EXPECT_EQ(ticks[0][2], "0");
        EXPECT_EQ(ticks[1][2], c.second);
        EXPECT_EQ(ticks.back()[2], c.last);
        const double unit_s = c.last.ends_with("h") ? 3600 : c.last.ends_with("min") ? 60 : 1;
        EXPECT_NEAR(std::stod(ticks.back()[1]), 68 + 1104 * std::stod(c.last) * unit_s / c.end.seconds(), 0.1);
    }
}

TEST(TimelineSvg, TheLegendNamesEveryColour) {
    const std::vector<SimulatedJob> jobs = jobs_named({"alpha", "beta", "never"});
    const std::string svg = svg_of({segment_s(0, LaneId{0}, 0, 1), segment_s(1, LaneId{0}, 1, 2)}, jobs);
    const std::regex entry(R"re(<rect class="key"[^>]*fill="(#[0-9a-f]+)"/>\n<text[^>]*>([^<]*)<)re");
    std::map<std::string, std::string> named;
    for (const std::smatch& found : matches(svg, entry)) named[found[2]] = found[1];
    ASSERT_TRUE(named.contains("alpha") && named.contains("beta") && named.contains("white: idle"));
    EXPECT_FALSE(named.contains("never")) << "it has no colour in the picture";
    EXPECT_EQ(count_of(svg, "fill=\"" + named["alpha"] + "\""), 2u) << "its turn and its key";
    EXPECT_NE(named["alpha"], named["beta"]);

    std::vector<Segment> many;
    for (std::uint32_t i = 0; i < 200; ++i) many.push_back(segment_s(i, LaneId{0}, i, i + 1));
    const std::string crowd = svg_of(many, numbered_jobs(200));
    EXPECT_NE(crowd.find(">and 80 more jobs, each in a colour of its own<"), std::string::npos);
    EXPECT_TRUE(is_well_formed(crowd));
}

TEST(TimelineSvg, FortyJobsHaveARowEachWithTheirNames) {
    std::vector<SimulatedJob> jobs = numbered_jobs(40);
    for (SimulatedJob& job : jobs) job.name = "job <" + job.name + ">";
    jobs[7].name = "a name that is longer than the margin beside the rows";
    Panel panel{"p", {}, {}, {}};
    for (std::uint32_t i = 0; i < 400; ++i) panel.segments.push_back(segment_s(i % 40, LaneId{i % 3}, i, i + 1));
    panel.presences = {{3, Instant{}, Instant{seconds(500).ns}}};
    const std::string svg = timeline_svg({&panel, 1}, jobs, {.by_job = true});
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_EQ(count_of(svg, "class=\"lane\""), 40u);
    EXPECT_NE(svg.find(">job &lt;39&gt;<"), std::string::npos);
    EXPECT_NE(svg.find(">a name that is longer tha…<"), std::string::npos);
    EXPECT_EQ(count_of(svg, "class=\"there\""), 1u);
    EXPECT_NE(svg.find("grey line: the job is there, and waits."), std::string::npos);
    std::set<int> tops;
    for (const std::smatch& found : matches(svg, std::regex(R"re(class="lane" x="[0-9]+" y="([0-9]+)")re")))
        tops.insert(std::stoi(found[1]));
    ASSERT_EQ(tops.size(), 40u);
    for (auto top = std::next(tops.begin()); top != tops.end(); ++top)
        EXPECT_GE(*top - *std::prev(top), 14) << "a line of text fits into a row";
}

TEST(TimelineSvg, TheAxisCanBeAClockOnTheWall) {
    const Panel panel{"p", {segment_s(0, LaneId{0}, 0, 60)}, {}, {}};
    const double at_s = 23 * 3600 + 59 * 60 + 47;
    const std::string svg = timeline_svg({&panel, 1}, numbered_jobs(1), {.starts_at_s = at_s});
    std::vector<std::string> ticks;
    for (const std::smatch& found : matches(svg, std::regex(R"re(class="tick" x="[0-9.]+" y="[0-9]+">([^<]*)<)re")))
        ticks.push_back(found[1]);
    EXPECT_EQ(ticks, (std::vector<std::string>{"23:59:50", "23:59:55", "00:00:00", "00:00:05", "00:00:10", "00:00:15",
                                               "00:00:20", "00:00:25", "00:00:30", "00:00:35", "00:00:40", "00:00:45"}));
}

TEST(Timeline, SinceKeepsWhatIsLater) {
    Panel panel{"p", {segment_s(0, LaneId{0}, 0, 4), segment_s(1, LaneId{0}, 4, 8), segment_s(0, LaneId{0}, 8, 9)}, {}, {}};
    panel.presences = {{0, Instant{}, Instant{seconds(9).ns}}};
    panel.answering.requests = {{1, Instant{}, Instant{seconds(7).ns}}};
    panel.answering.gates = {{Instant{}, Instant{seconds(5).ns}}, {Instant{seconds(5).ns}, Instant{seconds(7).ns}}};
    const Panel later = since(panel, Instant{seconds(6).ns});
    ASSERT_EQ(later.segments.size(), 2u);
    EXPECT_EQ(later.segments[0].client, ClientId{1});
    EXPECT_EQ(later.segments[0].start, Instant{});
    EXPECT_EQ(later.segments[0].end, Instant{seconds(2).ns});
    EXPECT_EQ(later.presences[0].end, Instant{seconds(3).ns});
    EXPECT_EQ(later.answering.requests[0].end, Instant{seconds(1).ns});
    ASSERT_EQ(later.answering.gates.size(), 1u);
    EXPECT_EQ(later.answering.gates[0].end, Instant{seconds(1).ns});
}

TEST(TimelineSvg, PanelsShareTheTimeAxis) {
    const std::vector<Panel> panels{{"long", {segment_s(0, LaneId{0}, 0, 100)}},
                                    {"short", {segment_s(0, LaneId{0}, 0, 50)}}};
    const std::string svg = timeline_svg(panels, numbered_jobs(1));
    EXPECT_NE(svg.find("width=\"552.00\""), std::string::npos);
    EXPECT_NE(svg.find("width=\"1104.00\""), std::string::npos);
}

// ------------------------------------------------------------------------------------------------- requests and gates

Answering::Request request_ms(std::size_t job, std::int64_t start, std::int64_t end) {
    return {job, Instant{milliseconds(start).ns}, Instant{milliseconds(end).ns}};
}

Answering::Closing closed_ms(std::int64_t start, std::int64_t end) {
    return {Instant{milliseconds(start).ns}, Instant{milliseconds(end).ns}};
}

auto members(const Answering& answering) {
    std::vector<std::tuple<std::size_t, Instant, Instant>> requests;
    std::vector<std::pair<Instant, Instant>> gates;
    for (const auto& r : answering.requests) requests.emplace_back(r.job, r.start, r.end);
    for (const auto& c : answering.gates) gates.emplace_back(c.start, c.end);
    return std::pair(requests, gates);
}

TEST(AnsweringRecorder, ARequestLastsFromTheFirstInFlightToTheLast) {
    AnsweringRecorder recorder;
    const auto at = [](std::int64_t ms) { return Instant{milliseconds(ms).ns}; };
    const std::vector<Action> close{action::CloseGates{}};
    const std::vector<Action> open{action::OpenGates{}};
    recorder.acted(open, at(0));  // they were
    recorder.requests(3, 0, at(1));
    recorder.requests(3, 1, at(2));
    recorder.acted(close, at(2));
    recorder.requests(3, 2, at(3));
    recorder.requests(4, 1, at(4));
    recorder.requests(3, 0, at(5));
    recorder.acted(open, at(6));
    recorder.acted(close, at(7));
    EXPECT_EQ(members(recorder.until(at(9))),
              members({{request_ms(3, 2, 5), request_ms(4, 4, 9)}, {closed_ms(2, 6), closed_ms(7, 9)}}));
    EXPECT_EQ(members(recorder.until(at(9)).since(at(2))),
              members({{request_ms(3, 0, 3), request_ms(4, 2, 7)}, {closed_ms(0, 4), closed_ms(5, 7)}}));
}

TEST(TimelineSvg, RequestsAreBelowTheRowOfTheirJobAndGatesBelowAll) {
    const std::vector<SimulatedJob> jobs = jobs_named({"train", "chat"});
    const Panel panel{
        "p",
        {segment(0, LaneId{0}, {}, milliseconds(100)), segment(1, LaneId{1}, milliseconds(50), milliseconds(60))},
        {{request_ms(1, 50, 61)}, {closed_ms(51, 60)}}};
    const std::string svg = timeline_svg({&panel, 1}, jobs);
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_NE(svg.find("x=\"620.00\" y=\"87\" width=\"110.40\" height=\"48\""), std::string::npos);  // its turn
    EXPECT_NE(svg.find("x=\"620.00\" y=\"135\" width=\"121.44\" height=\"8\" fill=\"#24292f\"><title>a request in flight\n"
                       "0.050 s to 0.061 s</title>"),
              std::string::npos);
    EXPECT_NE(svg.find("x=\"631.04\" y=\"146\" width=\"99.36\" height=\"8\" fill=\"#cf222e\"><title>gates closed\n"
                       "0.051 s to 0.060 s</title>"),
              std::string::npos);
    EXPECT_EQ(count_of(svg, ">gates</text>"), 1u);
    for (const char* key : {">black: a request in flight</text>", ">red: gates of batch jobs closed</text>"})
        EXPECT_EQ(count_of(svg, key), 1u) << key;
    const std::string without = svg_of(panel.segments, jobs);
    for (const char* none : {"#24292f", "#cf222e", "black", "red:", ">gates<"})
        EXPECT_EQ(without.find(none), std::string::npos) << none;
}

TEST(TimelineSvg, ShortRequestsAndClosingsBecomeSharesOfTheTime) {
    Panel panel{"p", {segment_s(0, LaneId{0}, 0, 1'000), segment_s(1, LaneId{1}, 0, 1'000)}};
    for (std::int64_t i = 0; i < 20'000; ++i) {
        panel.answering.requests.push_back(request_ms(1, 50 * i, 50 * i + 25));
        panel.answering.gates.push_back(closed_ms(50 * i, 50 * i + 12));
    }
    const std::string svg = timeline_svg({&panel, 1}, numbered_jobs(2));
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_LT(svg.size(), 100'000u);
    EXPECT_NE(svg.find("20000 times"), std::string::npos);
    EXPECT_NE(svg.find("the height of a colour is its share of the time."), std::string::npos);
    EXPECT_NE(svg.find(" 139h"), std::string::npos);  // half of the strip
    EXPECT_NE(svg.find(" 152h"), std::string::npos);  // a quarter
    std::smatch size;
    ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 1200 ([0-9]+)\"")));
    for (const auto& text : matches(svg, std::regex("<text x=\"[0-9]+\" y=\"([0-9]+)\">")))
        EXPECT_LE(std::stoi(text[1]) + 10, std::stoi(size[1]));  // the legend, in as many lines as it needs
}

TEST(TimelineChromeJson, HasRequestsAndGatesInThreadsOfTheirOwn) {
    const Panel panel{
        "p", {segment_s(0, LaneId{0}, 0, 1), segment_s(1, LaneId{1}, 0, 1)}, {{request_ms(1, 50, 61)}, {closed_ms(51, 60)}}};
    const auto events = events_of({&panel, 1}, jobs_named({"train", "chat"}), "X");
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[2].at("cat"), "request");
    EXPECT_EQ(events[2].at("tid"), 3);
    EXPECT_DOUBLE_EQ(events[2].at("dur").get<double>(), 11'000);
    EXPECT_EQ(events[3].at("cat"), "gates");
    EXPECT_EQ(events[3].at("tid"), 4);
    EXPECT_NE(timeline_chrome_json({&panel, 1}, jobs_named({"train", "chat"})).find("\"requests to chat\""),
              std::string::npos);
}

TEST(Timeline, ARecordedTraceHasTheRequestsAndGatesOfItsRun) {
    std::vector<SimulatedJob> jobs = jobs_named({"train", "chat"});
    for (SimulatedJob& job : jobs) job.persistent = job.ephemeral = gibibytes(1);
    jobs[0].iterations = 40;
    jobs[1].iterations = 20;
    jobs[1].iteration_time = milliseconds(10);
    jobs[1].think = milliseconds(80);
    jobs[1].interactive = jobs[1].random_think = true;
    for (const bool gates : {false, true}) {
        SimulationOptions options;
        options.engine.capacity = gibibytes(8);
        options.asynchronous = gates;
        Simulation simulation(options, jobs, fallback_policy(), fallback_policy());
        TimelineRecorder timeline;
        TraceRecorder trace;
        simulation.observe(timeline);
        simulation.observe(trace);
        const SimulationResult result = simulation.run();
        const auto recorded = read_recorded_run(trace.text(), find_policy, fallback_policy());
        ASSERT_TRUE(recorded) << recorded.error();
        EXPECT_EQ(recorded.value().replay.difference, "");
        const Answering answering = timeline.answering(result.end);
        EXPECT_EQ(members(recorded.value().answering), members(answering));
        EXPECT_EQ(answering.gates.size(), gates ? result.statistics.gate_closings : 0);
        if (!gates) EXPECT_TRUE(answering.requests.empty());
        else EXPECT_GE(answering.requests.size(), 15u);
        for (const Answering::Request& request : answering.requests) EXPECT_EQ(request.job, 1u);
    }
}

TEST(Timeline, RefusesSegmentsOfUnknownJobs) {
    const CheckHandler before = set_check_handler(throw_check_failure);
    EXPECT_THROW(svg_of({segment_s(1, LaneId{0}, 0, 1)}, numbered_jobs(1)), CheckFailure);
    set_check_handler(before);
}

}  // namespace
}  // namespace salus::sim
