#include "service/trace_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/engine.h"
#include "policies/table.h"
#include "service/log.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

std::string contents(const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
}

std::size_t lines_of(std::string_view text, std::string_view with) {
    std::size_t count = 0;
    for (const std::string_view line : split(text, '\n')) count += line.find(with) != std::string_view::npos ? 1u : 0u;
    return count;
}

/// An engine with two clients that take turns. Every event goes into a trace.
class Recorded {
public:
    explicit Recorded(const std::string& directory, Bytes limit)
        : engine_(options(), *find_policy("fair"), fallback_policy()),
          trace(directory, limit, format_header(engine_.options(), "fair")) {}

    void feed(const Event& event) {
        at_ = at_ + milliseconds(1);
        trace.record(event, at_, engine_.handle(event, at_));
        ++events;
    }
    void attach(ClientId id, std::string_view name) {
        trace.name_client(id, /*job=*/1, name);
        event::Attach attach;
        attach.client = id;
        attach.profiled = true;
        attach.persistent = mebibytes(100);
        attach.ephemeral = mebibytes(200);
        feed(attach);
        feed(event::Want{id});
        const Client* client = engine_.find(id);
        if (client->lane == kNoLane) return;
        feed(event::Acknowledge{id, client->lane, engine_.lanes().find(client->lane)->mapping(id)->version});
    }
    void pass(Duration time) { at_ = at_ + time; }
    /// The client that has the turn comes to a boundary.
    void take_turns(int count) {
        for (int i = 0; i < count; ++i) {
            for (const Client* client : engine_.clients()) {
                if (!client->holds()) continue;
                feed(event::Boundary{client->facts.id, 1});
                break;
            }
        }
    }

private:
    static EngineOptions options() {
        EngineOptions options;
        options.capacity = gibibytes(1);
        return options;
    }

    Engine engine_;
    Instant at_;

public:
    TraceFile trace;
    std::size_t events = 0;
};

class TraceFileTest : public ::testing::Test {
protected:
    TraceFileTest() {
        char name[] = "/tmp/salus-trace-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        current_ = directory_ + "/trace";
        previous_ = directory_ + "/trace.1";
    }
    ~TraceFileTest() override { fs::remove_all(directory_); }

    std::string piece(unsigned number) const { return current_ + "." + std::to_string(number); }
    std::int64_t size_of_all() const {
        std::uintmax_t sum = 0;
        for (const auto& entry : fs::directory_iterator(directory_)) sum += entry.file_size();
        return static_cast<std::int64_t>(sum);
    }

    std::string directory_;
    std::string current_;
    std::string previous_;
};

TEST_F(TraceFileTest, StartsWithTheHeader) {
    Recorded recorded(directory_, mebibytes(1));
    EXPECT_TRUE(recorded.trace.recording());
    EXPECT_EQ(recorded.trace.current_path(), current_);
    EXPECT_EQ(recorded.trace.previous_path(), previous_);
    EXPECT_TRUE(contents(current_).starts_with("salus-trace 1 policy=fair "));
    EXPECT_EQ(lines_of(contents(current_), "salus-trace"), 1u);
    EXPECT_EQ(recorded.trace.written().count, static_cast<std::int64_t>(fs::file_size(current_)));
    struct stat status {};
    ASSERT_EQ(::stat(current_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(TraceFileTest, RemembersUntilItIsFlushed) {
    Recorded recorded(directory_, mebibytes(1));
    const std::string before = contents(current_);
    EXPECT_FALSE(recorded.trace.has_pending());
    recorded.attach(ClientId{0}, "a");
    EXPECT_TRUE(recorded.trace.has_pending());
    EXPECT_EQ(contents(current_), before);
    recorded.trace.flush();
    EXPECT_FALSE(recorded.trace.has_pending());
    EXPECT_GT(contents(current_).size(), before.size());
    EXPECT_EQ(recorded.trace.written().count, static_cast<std::int64_t>(fs::file_size(current_)));
    recorded.trace.flush();
    EXPECT_EQ(recorded.trace.written().count, static_cast<std::int64_t>(fs::file_size(current_)));
}

TEST_F(TraceFileTest, WhileItIsWholeItReplaysToTheSameDecisions) {
    std::size_t events = 0;
    {
        Recorded recorded(directory_, mebibytes(8));
        recorded.attach(ClientId{0}, "first");
        recorded.attach(ClientId{1}, "second, with spaces = and more");
        for (int i = 0; i < 50; ++i) {
            recorded.take_turns(10);
            if (i % 3 == 0) recorded.trace.flush();
        }
        recorded.feed(event::SetPolicy{find_policy("srtf")});
        recorded.feed(event::Die{ClientId{0}});
        recorded.take_turns(3);
        events = recorded.events;
        EXPECT_GT(events, 500u);
    }  // the destructor writes the rest
    EXPECT_FALSE(fs::exists(previous_));
    const auto replay = replay_trace(contents(current_), find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
    EXPECT_EQ(replay.value().events, events);
    EXPECT_GT(replay.value().actions, 100u);
    EXPECT_EQ(lines_of(contents(current_), "name=first"), 1u);
}

TEST_F(TraceFileTest, StaysWithinItsBoundAndKeepsTheLatest) {
    constexpr Bytes kLimit{32 * 1024};
    Recorded recorded(directory_, kLimit);
    recorded.attach(ClientId{0}, "a");
    recorded.attach(ClientId{1}, "b");
    std::size_t rotations = 0;
    for (int i = 0; i < 2000; ++i) {
        const Bytes before = recorded.trace.written();
        recorded.take_turns(1);
        recorded.trace.flush();
        if (recorded.trace.written() < before) ++rotations;
        ASSERT_LE(size_of_all(), kLimit.count);
        ASSERT_EQ(recorded.trace.written().count, static_cast<std::int64_t>(fs::file_size(current_)));
    }
    EXPECT_GT(rotations, 10u);
    EXPECT_TRUE(recorded.trace.recording());
    EXPECT_GT(size_of_all(), kLimit.count * 3 / 4);
    // One piece continues the other, each begins with a whole event, and the last event is there.
    std::string all = contents(current_);
    for (unsigned number = 1; fs::exists(piece(number)); ++number) {
        EXPECT_TRUE(contents(piece(number)).starts_with("@")) << number;
        all = contents(piece(number)) + all;
    }
    std::int64_t last = 0;
    for (const std::string_view line : split(all, '\n')) {
        if (!line.starts_with('@')) continue;
        const auto at = parse_integer(line.substr(1, line.find(' ') - 1));
        ASSERT_TRUE(at.has_value());
        if (last != 0) {
            ASSERT_EQ(*at - last, 1'000'000) << "an event is missing";
        }
        last = *at;
    }
    EXPECT_EQ(last, static_cast<std::int64_t>(recorded.events) * 1'000'000);
}

// Many events may happen before there is time to write them.
TEST_F(TraceFileTest, StaysWithinItsBoundHoweverMuchIsFlushedAtOnce) {
    constexpr Bytes kLimit{32 * 1024};
    Recorded recorded(directory_, kLimit);
    recorded.attach(ClientId{0}, "a");
    recorded.attach(ClientId{1}, "b");
    recorded.take_turns(2000);
    recorded.trace.flush();
    EXPECT_LE(size_of_all(), kLimit.count);
    EXPECT_EQ(lines_of(contents(current_), "@" + std::to_string(recorded.events * 1'000'000) + " "), 1u) << "the latest";
}

TEST_F(TraceFileTest, ThoseOfEarlierServicesStay) {
    std::ofstream(current_ + ".previous") << "an earlier version's, the older half\n";
    std::ofstream(current_) << "an earlier version's\n";
    for (const char* name : {"first", "second"}) {
        Recorded recorded(directory_, mebibytes(1));
        recorded.attach(ClientId{0}, name);
    }
    Recorded recorded(directory_, mebibytes(1));
    EXPECT_EQ(lines_of(contents(current_), "@"), 0u);
    EXPECT_EQ(lines_of(contents(piece(1)), "name=second"), 1u);
    EXPECT_EQ(lines_of(contents(piece(2)), "name=first"), 1u);
    EXPECT_EQ(contents(piece(3)), "an earlier version's\n");
    EXPECT_EQ(contents(piece(4)), "an earlier version's, the older half\n");
    EXPECT_FALSE(fs::exists(current_ + ".previous"));
    const auto replay = replay_trace(contents(piece(1)), find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
}

TEST_F(TraceFileTest, AllTogetherStayWithinTheLimitHoweverManyServices) {
    constexpr Bytes kLimit{64 * 1024};
    for (unsigned service = 0; service < TraceFile::kPiecesMax + 20; ++service) {
        Recorded recorded(directory_, kLimit);
        recorded.attach(ClientId{0}, std::to_string(service));
        recorded.trace.flush();
        ASSERT_LE(size_of_all(), kLimit.count);
    }
    EXPECT_EQ(lines_of(contents(current_), "name=219"), 1u);
    EXPECT_EQ(lines_of(contents(piece(1)), "name=218"), 1u);
    const auto files = static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
    EXPECT_LE(files, TraceFile::kPiecesMax + 1);
    EXPECT_GT(files, 20u);
}

TEST_F(TraceFileTest, APieceEndsAfterADayAndIsRemovedAfterAMonth) {
    Recorded recorded(directory_, mebibytes(1));
    recorded.attach(ClientId{0}, "a");
    recorded.trace.flush();
    recorded.pass(TraceFile::kPieceSpan - seconds(1));
    recorded.attach(ClientId{1}, "b");
    recorded.trace.flush();
    EXPECT_FALSE(fs::exists(previous_));
    for (int day = 0; day < 2; ++day) {
        recorded.pass(TraceFile::kPieceSpan);
        recorded.take_turns(1);
        recorded.trace.flush();
    }
    EXPECT_TRUE(fs::exists(piece(1)) && fs::exists(piece(2)));
    const std::string whole = contents(piece(2)) + contents(piece(1)) + contents(current_);
    const auto replay = replay_trace(whole, find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
    EXPECT_EQ(replay.value().events, recorded.events);
    const auto kept = fs::file_time_type::clock::now() - std::chrono::nanoseconds(TraceFile::kKeptFor.ns);
    fs::last_write_time(piece(2), kept - std::chrono::hours(1));
    fs::last_write_time(piece(1), kept + std::chrono::hours(1));
    recorded.pass(TraceFile::kPieceSpan);
    recorded.take_turns(1);
    recorded.trace.flush();
    EXPECT_TRUE(fs::exists(piece(2)));
    EXPECT_FALSE(fs::exists(piece(3)));
}

// -------------------------------------------------------------------------------------------------------------- failures

TEST_F(TraceFileTest, WithoutAPlaceNothingIsRecordedAndThatIsSaidOnce) {
    ::testing::internal::CaptureStderr();
    {
        Recorded recorded(directory_ + "/none", mebibytes(1));
        EXPECT_FALSE(recorded.trace.recording());
        recorded.attach(ClientId{0}, "a");
        recorded.take_turns(10);
        EXPECT_FALSE(recorded.trace.has_pending());
        recorded.trace.flush();
        EXPECT_EQ(recorded.trace.written(), Bytes{});
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines_of(said, "cannot record a trace"), 1u) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(TraceFileTest, WhenItCannotRotateRecordingStopsAndThatIsSaidOnce) {
    fs::create_directory(previous_);
    std::ofstream(previous_ + "/in-the-way") << "x";
    ::testing::internal::CaptureStderr();
    {
        Recorded recorded(directory_, {8 * 1024});
        recorded.attach(ClientId{0}, "a");
        recorded.attach(ClientId{1}, "b");
        for (int i = 0; i < 300; ++i) {
            recorded.take_turns(1);
            recorded.trace.flush();
        }
        EXPECT_FALSE(recorded.trace.recording());
        EXPECT_FALSE(recorded.trace.has_pending());
        EXPECT_LE(fs::file_size(current_), 1024u);
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << "said: " << said;
}

/// Returns 0 if recording stops on a disk with room for `room` bytes per file, and everything else goes on.
int record_on_full_disk(const std::string& directory, std::int64_t room) {
    ::signal(SIGXFSZ, SIG_IGN);  // then a write beyond the limit is an error
    const rlimit limit{static_cast<rlim_t>(room), static_cast<rlim_t>(room)};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    Recorded recorded(directory, mebibytes(8));
    if (recorded.trace.recording() != (room > 1000)) return 2;
    recorded.attach(ClientId{0}, "a");
    recorded.attach(ClientId{1}, "b");
    for (int i = 0; i < 1000; ++i) {
        recorded.take_turns(1);
        recorded.trace.flush();
    }
    if (recorded.trace.recording()) return 3;
    if (recorded.trace.has_pending()) return 4;
    return 0;
}

TEST_F(TraceFileTest, OnAFullDiskRecordingStopsAndThatIsSaidOnce) {
    for (const std::int64_t room : {0, 10, 20'000}) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            // Standard error must not be a file: it could be full, too.
            int ends[2];
            if (::pipe(ends) != 0) ::_exit(9);
            ::dup2(ends[1], STDERR_FILENO);
            const int outcome = record_on_full_disk(directory_, room);
            char said[4096] = {};
            const ssize_t got = ::read(ends[0], said, sizeof said - 1);
            const std::string_view lines(said, got > 0 ? static_cast<std::size_t>(got) : 0);
            ::_exit(outcome != 0 ? outcome : std::count(lines.begin(), lines.end(), '\n') == 1 ? 0 : 10);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0) << "room for " << room << " bytes";
        EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(current_)), room);
        if (room < 1000) continue;
        // The part that was written is readable.
        const std::string text = contents(current_);
        const auto replay = replay_trace(text.substr(0, text.rfind("\n@") + 1), find_policy, fallback_policy());
        ASSERT_TRUE(replay.ok()) << replay.error();
        EXPECT_EQ(replay.value().difference, "");
        EXPECT_GT(replay.value().events, 50u);
    }
}

}  // namespace
}  // namespace salus::service
