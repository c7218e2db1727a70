// Gates in real processes on the stand-in GPU: a training stands still while a request is in flight, and goes on whoever
// dies.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "tests/shim_machine.h"

namespace salus::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Counts the launches of a program that are done.
class Beat {
public:
    explicit Beat(std::string path) : path_(std::move(path)) {
        const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        EXPECT_EQ(::ftruncate(file, sizeof(std::uint64_t)), 0);
        count_ = static_cast<std::atomic<std::uint64_t>*>(
            ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        ::close(file);
    }
    ~Beat() { ::munmap(count_, sizeof(std::uint64_t)); }
    Beat(const Beat&) = delete;
    Beat& operator=(const Beat&) = delete;

    const std::string& path() const { return path_; }
    std::uint64_t now() const { return *count_; }
    bool goes_on(std::uint64_t more = 3) const {
        const std::uint64_t from = now();
        return eventually([&] { return now() >= from + more; });
    }
    /// Whether it counts nothing for this long.
    bool stands_still(milliseconds time) const {
        const std::uint64_t from = now();
        for (const auto end = Clock::now() + time; Clock::now() < end; ::usleep(1000)) {
            if (now() != from) return false;
        }
        return true;
    }
    milliseconds time_until_it_goes_on() const {
        const std::uint64_t from = now();
        const auto begin = Clock::now();
        EXPECT_TRUE(eventually([&] { return now() != from; }));
        return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    }

private:
    std::string path_;
    std::atomic<std::uint64_t>* count_;
};

/// A training of short kernels, and servers that come and go.
struct GatedMachine : ShimMachine {
    GatedMachine() : beat(path("beat")) {
        training = run({"--name", "training"}, {"dlsym", "--us", "1000", "--seconds", "600", "--beat", beat.path()});
        EXPECT_TRUE(beat.goes_on()) << training.output();
    }
    /// Each of its requests takes the device so long, and there is a pause after it.
    Process server(int request_ms, int pause_ms, int seconds = 600) {
        return run({"--name", "server", "--class", "interactive"},
                   {"dlsym", "--us", std::to_string(request_ms * 1000), "--pause-us", std::to_string(pause_ms * 1000),
                    "--seconds", std::to_string(seconds), "--beat", path("server-beat")});
    }
    std::uint64_t closings() const {
        const nlohmann::json all = status();
        if (!all.is_object()) return 0;
        return all["service"]["statistics"].value("gate_closings", std::uint64_t{0});
    }
    /// The process that uses the GPU, below `salus run`.
    pid_t pid_of(const std::string& name) const { return row(name).value("pid", 0); }

    Beat beat;
    Process training;
};

TEST(RealGates, ATrainingStandsStillWhileARequestIsInFlight) {
    GatedMachine machine;
    EXPECT_EQ(machine.closings(), 0u) << "nobody answers anybody";
    Process server = machine.server(/*request_ms=*/90, /*pause_ms=*/300);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 3; })) << machine.status();
    EXPECT_TRUE(eventually([&] { return machine.beat.stands_still(milliseconds(40)); })) << machine.status();
    EXPECT_TRUE(machine.beat.goes_on(20));
    const nlohmann::json row = machine.row("server");
    EXPECT_EQ(row.value("class", ""), "interactive") << row;
    EXPECT_GT(row.value("requests", 0), 0) << row;
    EXPECT_GE(row.value("request_p50_ms", 0.0), 80.0) << row;
    server.end();
    EXPECT_TRUE(machine.beat.goes_on(50));
}

TEST(RealGates, ALongRequestIsNotWaitedForForEver) {
    GatedMachine machine;
    Process server = machine.server(/*request_ms=*/3000, /*pause_ms=*/10);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 1; })) << machine.status();
    EXPECT_TRUE(machine.beat.goes_on(200)) << "beyond the budget the device's own slicing decides";
}

TEST(RealGates, ATrainingThatIsNotAloneStillTakesTurns) {
    GatedMachine machine;
    Beat other(machine.path("other-beat"));
    Process second =
        machine.run({"--name", "second"}, {"dlsym", "--us", "1000", "--seconds", "600", "--beat", other.path()});
    Process server = machine.server(/*request_ms=*/30, /*pause_ms=*/100);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 10; })) << machine.status();
    EXPECT_TRUE(machine.beat.goes_on(50));
    EXPECT_TRUE(other.goes_on(50));
}

TEST(RealGates, AProgramEndsWhileGatesAreClosed) {
    GatedMachine machine;
    Process server = machine.server(/*request_ms=*/110, /*pause_ms=*/20);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 1; })) << machine.status();
    for (int i = 0; i < 5; ++i) {
        Process other = machine.run({"--name", "other"}, {"dlsym", "--us", "1000", "--seconds", "0.3"});
        EXPECT_EQ(other.wait(), 0) << other.output();
    }
    EXPECT_TRUE(machine.beat.goes_on(50));
}

TEST(RealGates, TheNextServiceClosesGatesToo) {
    GatedMachine machine;
    Process server = machine.server(/*request_ms=*/90, /*pause_ms=*/300);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 1; })) << machine.status();
    for (int restart = 0; restart < 2; ++restart) {
        machine.service().signal(SIGKILL);
        machine.service().wait();
        if (restart % 2 == 0) machine.start_service();  // else one of the runners starts it
        EXPECT_TRUE(eventually([&] { return machine.closings() >= 2; })) << machine.status();
        EXPECT_TRUE(eventually([&] { return machine.beat.stands_still(milliseconds(40)); })) << machine.status();
        EXPECT_TRUE(machine.beat.goes_on(20));
    }
}

enum class Victim { kServer, kService, kBoth, kStoppedServer };

/// Stops the victim while gates are closed. Returns after how long the training goes on.
milliseconds time_without(Victim victim) {
    GatedMachine machine;
    Process server = machine.server(/*request_ms=*/110, /*pause_ms=*/450);
    EXPECT_TRUE(eventually([&] { return machine.closings() >= 1; })) << machine.log();
    EXPECT_TRUE(eventually([&] { return machine.beat.stands_still(milliseconds(20)); })) << machine.status();
    const pid_t pid = machine.pid_of("server");
    const bool service = victim == Victim::kService || victim == Victim::kBoth;
    if (victim == Victim::kStoppedServer) ::kill(pid, SIGSTOP);
    else if (victim != Victim::kService) ::kill(pid, SIGKILL);
    if (service) machine.service().signal(SIGKILL);
    const milliseconds time = machine.beat.time_until_it_goes_on();
    EXPECT_TRUE(machine.beat.goes_on(30)) << machine.log();
    server.end();
    machine.training.end();
    if (service) machine.salus({"stop", "--force"}).wait();  // one that a runner may have started in its stead
    return time;
}

/// At once if somebody is there to open gates, else as soon as its own helper does. A loaded machine takes its time.
TEST(RealGates, ATrainingGoesOnWhoeverDiesWhileGatesAreClosed) {
    const int rounds = std::getenv("SALUS_TEST_ALL") ? 50 : 2;
    milliseconds longest{};
    for (int round = 0; round < rounds; ++round) {
        for (const Victim victim : {Victim::kServer, Victim::kStoppedServer, Victim::kService, Victim::kBoth}) {
            SCOPED_TRACE(testing::Message() << "round " << round << ", victim " << static_cast<int>(victim));
            longest = std::max(longest, time_without(victim));
        }
    }
    std::printf("%d kills and stops with gates closed: the training went on within %ld ms\n", 4 * rounds,
                static_cast<long>(longest.count()));
    EXPECT_LT(longest, milliseconds(2000));
}

}  // namespace
}  // namespace salus::test
