#include "service/trace_view.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/trace.h"
#include "os/socket.h"
#include "policies/table.h"
#include "sim/recorded_run.h"
#include "sim/simulation.h"
#include "sim/trace_recorder.h"

namespace salus::service {
namespace {

constexpr unsigned kViewer = 1001;

/// A trace of the jobs of root, Alice and two others, with their names.
std::string trace_of_four_users() {
    std::vector<sim::SimulatedJob> jobs;
    for (const unsigned uid : {0u, kViewer, 1002u, 1003u, kViewer}) {
        sim::SimulatedJob job;
        job.name = "job";
        job.user = UserId{uid};
        job.iterations = 40;
        job.persistent = mebibytes(500);
        job.ephemeral = mebibytes(900);
        jobs.push_back(job);
    }
    sim::SimulationOptions options;
    options.engine.capacity = gibibytes(4);
    options.engine.share_by_user = true;
    options.engine.user_memory_max = mebibytes(1500);
    sim::TraceRecorder recorder;
    sim::Simulation simulation(options, jobs, *find_policy("fair"), fallback_policy());
    simulation.observe(recorder);
    static_cast<void>(simulation.run());
    std::string text;
    for (const std::string_view line : split(recorder.text(), '\n')) {
        const std::size_t user = line.find(" attach ") != std::string_view::npos ? line.find(" user=") : line.npos;
        if (user != line.npos) {
            const std::string uid(line.substr(user + 6, line.find(' ', user + 1) - user - 6));
            text += "# client=0 job=7 name=of " + uid + "!\n";
        }
        text += std::string(line) + "\n";
    }
    return text;
}

std::string seen_by(unsigned uid, bool only_numbers, const std::string& trace) {
    TraceView view(uid, only_numbers);
    std::string seen;
    for (const std::string_view line : split(trace, '\n')) {
        if (!line.empty()) seen += view.of(line);
    }
    return seen;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TraceView, WithNumbersOnlyShowsNobodyElse) {
    const std::string trace = trace_of_four_users();
    ASSERT_TRUE(contains(trace, "name=of 1002!") && contains(trace, " user=1003 "));
    const std::string seen = seen_by(kViewer, true, trace);
    for (const char* hidden : {" user=1002 ", " user=1003 ", "of 1002!", "of 1003!", "of 0!"})
        EXPECT_FALSE(contains(seen, hidden)) << hidden;
    EXPECT_TRUE(contains(seen, "name=of 1001!") && contains(seen, " user=1001 "));
    std::string as_it_is;
    for (const std::string_view line : split(trace, '\n')) {
        if (!line.empty()) as_it_is += std::string(line) + "\n";
    }
    EXPECT_EQ(seen_by(kViewer, false, trace), as_it_is);
}

TEST(TraceView, ReplaysToTheSameDecisions) {
    const std::string trace = trace_of_four_users();
    const auto before = sim::read_recorded_run(trace, find_policy, fallback_policy());
    const auto after = sim::read_recorded_run(seen_by(kViewer, true, trace), find_policy, fallback_policy());
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(after.value().replay.difference, "");
    EXPECT_EQ(after.value().replay.actions, before.value().replay.actions);
    EXPECT_EQ(after.value().jobs.size(), 5u);
    for (const sim::SimulatedJob& job : after.value().jobs) EXPECT_EQ(job.name == "of 1001!", job.user == UserId{kViewer});
}

TEST(TraceView, ANoteThatNobodyFollowsKeepsItsName) {
    EXPECT_EQ(seen_by(kViewer, true,
                      "# client=1 job=2 name=a\n# client=3 job=4 name=b\n@4 want client=1\n  grant client=1\n"
                      "@5 attach client=3 user=1001\n"),
              "# client=1 job=2\n@4 want client=1\n  grant client=1\n# client=3 job=4 name=b\n"
              "@5 attach client=3 user=1001\n");
}

/// Read when the stream can send no more.
std::string all_of(TraceStream& stream, int reader) {
    std::string read;
    std::vector<std::byte> packet(TraceStream::kPacketMax);
    for (bool more = true; more;) {
        more = stream.go_on();
        for (;;) {
            const os::Arrival arrival = os::receive_packet(reader, packet, {});
            if (arrival.kind != os::Arrival::Kind::kPacket) break;
            read.append(reinterpret_cast<const char*>(packet.data()), arrival.size);
        }
    }
    return read;
}

TEST(TraceStream, SendsAllOfTheFilesToASlowReader) {
    char name[] = "/tmp/salus-trace-view-XXXXXX";
    const std::string directory = ::mkdtemp(name);
    std::string all;
    for (int i = 0; i < 100'000; ++i) all += "@" + std::to_string(i) + " want client=1\n";
    std::ofstream(directory + "/one") << all;
    std::ofstream(directory + "/two") << "@9 want client=2\n@10 wa";
    auto ends = os::make_socket_pair();
    ASSERT_TRUE(ends);
    TraceStream stream({directory + "/none", directory + "/one", directory + "/two"}, {kViewer, true},
                       std::move(ends->first));
    std::ofstream(directory + "/two", std::ios::app) << "nt client=2\n";
    const std::string read = all_of(stream, ends->second.get());
    EXPECT_TRUE(read == all + "@9 want client=2\n") << read.size() << " of " << all.size();
    ends->second.reset();
    auto again = os::make_socket_pair();
    ASSERT_TRUE(again);
    TraceStream only_the_end({directory + "/one", directory + "/two"}, {kViewer, true}, std::move(again->first), 60);
    EXPECT_EQ(all_of(only_the_end, again->second.get()), "@99999 want client=1\n@9 want client=2\n@10 want client=2\n");
    TraceStream to_nobody({directory + "/one"}, {kViewer, true}, std::move(os::make_socket_pair()->first));
    EXPECT_FALSE(to_nobody.go_on());
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace salus::service
