// What goes wrong with real processes, and who else notices: nobody.
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <set>

#include "os/descriptor.h"
#include "os/socket.h"
#include "salus/salus.h"
#include "tests/processes_fixture.h"
#include "wire/control_page.h"
#include "wire/messages.h"

namespace salus::test {
namespace {

/// A job whose iterations take a millisecond or two.
Words small(const std::string& iterations = "1000000", const std::string& touch = "pages") {
    return {"--persistent", "4MiB", "--ephemeral", "8MiB", "--block",      "4MiB",
            "--work",       "500",  "--touch",     touch,  "--iterations", iterations};
}

class Faults : public ::testing::Test {
protected:
    /// The service still takes in a newcomer, which runs to its end unharmed.
    void expect_service_works(Machine& machine) {
        static int number = 0;
        const std::string name = "probe" + std::to_string(number++);
        Process& probe = machine.job(name, small("20"));
        EXPECT_EQ(probe.wait(), 0) << probe.output();
        EXPECT_EQ(machine.report(name)["counters"].value("shared", 0), 1) << "it ran on its own";
    }
};

class KilledClient : public Faults, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledClient, LeavesTheOthersAlone) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB"});
    machine.job("other", small());
    Process& victim = machine.job("victim", small() + Words{"--crash-at", "30", "--crash", GetParam()});
    EXPECT_EQ(victim.wait(), 128 + SIGKILL) << victim.output();
    EXPECT_TRUE(machine.goes_on("other", 50));
    EXPECT_TRUE(eventually([&] { return machine.row("victim").empty(); }));
    EXPECT_EQ(machine.status()["service"]["lanes"].size(), 1u);
    expect_service_works(machine);
}
INSTANTIATE_TEST_SUITE_P(AtAnyPoint, KilledClient, ::testing::Values("before", "during", "after"));

TEST_F(Faults, AClientKilledWhileItWaitsIsForgotten) {
    Machine machine({"--policy", "fifo", "--capacity", "1GiB"});
    machine.job("first", small());
    ASSERT_TRUE(machine.goes_on("first"));
    Process& second = machine.job("second", small());
    ASSERT_TRUE(eventually([&] { return machine.state_of("second") == "waiting"; }));
    second.signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return machine.row("second").empty(); }));
    EXPECT_TRUE(machine.goes_on("first"));
}

TEST_F(Faults, NoIterationIsLostOrRunTwiceWhenTheServiceIsKilled) {
    Machine machine({"--policy", "fair", "--capacity", "1GiB"});
    const int jobs = 3;
    const int iterations = kSanitized ? 300 : 1500;
    std::vector<Process*> running;
    for (int i = 0; i < jobs; ++i) {
        const std::string name = "job" + std::to_string(i);
        running.push_back(&machine.job(
            name, small(std::to_string(iterations)) + Words{"--log", machine.path(name + ".log"), "--survive", "7"}));
    }
    for (int restart = 0; restart < 3; ++restart) {
        for (int i = 0; i < jobs; ++i) ASSERT_TRUE(machine.goes_on("job" + std::to_string(i), 20));
        machine.service().signal(SIGKILL);
        machine.service().wait();
        machine.start_service();
    }
    for (int i = 0; i < jobs; ++i) {
        const std::string name = "job" + std::to_string(i);
        EXPECT_EQ(running[static_cast<std::size_t>(i)]->wait(), 0) << running[static_cast<std::size_t>(i)]->output();
        std::istringstream log(text_of(machine.path(name + ".log")));
        int expected = 0;
        for (std::string line; std::getline(log, line); ++expected) ASSERT_EQ(line, "iteration " + std::to_string(expected));
        EXPECT_EQ(expected, iterations);
        const nlohmann::json report = machine.report(name);
        EXPECT_EQ(report["counters"]["iterations"], iterations);
        EXPECT_EQ(report["counters"]["attachments"], 4);
        EXPECT_EQ(report["counters"]["shared"], 1);
    }
}

TEST_F(Faults, WithoutAServiceForLongAJobGoesOnAlone) {
    Machine machine({"--capacity", "1GiB"});
    Process& job = machine.job("orphan", small("400"), {{"SALUS_ORPHAN_WAIT", "0.3"}});
    ASSERT_TRUE(machine.goes_on("orphan"));
    machine.service().signal(SIGKILL);
    machine.service().wait();
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(machine.report("orphan")["counters"]["shared"], 0);
    EXPECT_NE(job.output().find("continues without sharing"), std::string::npos) << job.output();
}

TEST_F(Faults, TheNextServiceChargesWhatOrphansHold) {
    Machine machine({"--capacity", "1GiB"});
    Process& job = machine.job("orphan", small());
    ASSERT_TRUE(machine.goes_on("orphan"));
    job.signal(SIGSTOP);  // it cannot attach again
    machine.service().signal(SIGKILL);
    machine.service().wait();
    machine.start_service();
    const auto held = [&] { return machine.status()["service"].value("held_by_orphans_bytes", std::int64_t{0}); };
    EXPECT_GT(held(), 8 << 20);
    EXPECT_LT(machine.status()["service"].value("capacity_bytes", std::int64_t{0}), std::int64_t{1} << 30);
    job.signal(SIGCONT);
    EXPECT_TRUE(machine.goes_on("orphan"));
    EXPECT_TRUE(eventually([&] { return held() == 0; }));
    EXPECT_EQ(machine.status()["service"].value("capacity_bytes", std::int64_t{0}), std::int64_t{1} << 30);
}

TEST_F(Faults, AClientThatIdlesForEverHoldsNobodyUp) {
    for (const bool asynchronous : {false, true}) {  // the grant is taken by the service, or given back by the helper
        Machine machine({"--policy", "srtf", "--capacity", "1GiB", "--lanes", "1"});
        std::map<std::string, std::string> extra;
        if (asynchronous) extra["SALUS_HOST_ASYNCHRONOUS"] = "1";
        machine.job("idler", small() + Words{"--hang-at", "10", "--hang", "idle"}, extra);
        ASSERT_TRUE(eventually([&] { return machine.iterations("idler") == 11; }));
        machine.job("other", small());
        EXPECT_TRUE(machine.goes_on("other", 50));
        EXPECT_EQ(machine.iterations("idler"), 11u);
        EXPECT_EQ(machine.state_of("idler"), "idle");
    }
}

TEST_F(Faults, BehindAStoppedRunnerPsSaysWhoAndOthersMoveWhenThereIsRoom) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB", "--lanes", "1", "--rehome-after-s", "1"});
    Process& stopped = machine.job("stopped", small() + Words{"--hang-at", "10", "--hang", "inside"});
    machine.job("other", small());
    // It is inside its iteration, and the other waits for it.
    ASSERT_TRUE(eventually(
        [&] { return machine.iterations("stopped") == 10 && machine.row("other").value("waiting_now_s", 0.0) > 0.1; }));
    stopped.signal(SIGSTOP);
    EXPECT_TRUE(eventually([&] {
        return machine.row("other").value("behind", "") == "stopped" && machine.state_of("stopped") == "stopped";
    })) << machine.status();
    Process ps = machine.salus({"ps"});
    EXPECT_EQ(ps.wait(), 0);
    EXPECT_NE(ps.output().find("stopped"), std::string::npos) << ps.output();
    EXPECT_TRUE(machine.goes_on("other", 20)) << machine.status();
    EXPECT_GE(machine.status()["service"]["statistics"].value("rehomings", 0), 1);
}

TEST_F(Faults, AHolderThatWaitsForAProcessorDoesSomething) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB", "--lanes", "1"});
    const Process& starved = machine.job("starved", {"--persistent", "4MiB", "--ephemeral", "8MiB", "--work", "3000000"});
    ASSERT_TRUE(eventually([&] { return machine.state_of("starved") == "running"; }));
    machine.job("other", small());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    const sched_param no_priority{};
    ASSERT_EQ(::sched_setaffinity(starved.pid(), sizeof one, &one), 0);
    ASSERT_EQ(::sched_setscheduler(starved.pid(), SCHED_IDLE, &no_priority), 0);
    const pid_t busy = ::fork();
    if (busy == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::sched_setaffinity(0, sizeof one, &one);
        for (;;) asm volatile("");
    }
    const auto used = [&] { return os::cpu_time_of(starved.pid()).value_or(Duration{}); };
    const Duration before = used();
    EXPECT_FALSE(eventually([&] { return machine.state_of("starved") == "asleep"; }, 2)) << machine.log();
    EXPECT_LT((used() - before).seconds(), 0.5) << "nothing kept it from the processor";
    ::kill(busy, SIGKILL);
    ::waitpid(busy, nullptr, 0);
}

TEST_F(Faults, ForkInsideAnIterationIsHarmless) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB"});
    machine.job("other", small());
    Process& forker = machine.job("forker", small("60", "full") + Words{"--fork-at", "20"});
    EXPECT_EQ(forker.wait(), 0) << forker.output();
    EXPECT_TRUE(machine.goes_on("other"));
}

TEST_F(Faults, SeveralThreadsInOneIteration) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB", "--min-turn-ms", "0"});
    Process& other = machine.job("other", small("200", "full"));
    Process& threads = machine.job("threads", small("200", "full") + Words{"--threads", "3"});
    EXPECT_EQ(threads.wait(), 0) << threads.output();
    EXPECT_EQ(other.wait(), 0) << other.output();
}

TEST_F(Faults, ATraceThatCannotBeWrittenStopsNothing) {
    Machine machine({"--capacity", "1GiB"}, /*start=*/false);
    ASSERT_EQ(::mkdir(machine.state().c_str(), 0700), 0);
    ASSERT_EQ(::symlink("/dev/full", machine.path("state/trace").c_str()), 0);
    machine.start_service();
    expect_service_works(machine);
    EXPECT_FALSE(machine.status()["service"]["trace"].value("recording", true));
    EXPECT_NE(machine.log().find("recording of the trace stops"), std::string::npos) << machine.log();
}

TEST_F(Faults, AFullDiskForPagingHarmsNobodyWhoHasAPlace) {
    Machine machine({"--policy", "srtf", "--capacity", "180MiB"});  // two fit
    const auto job = [&](const std::string& name, const std::string& iterations) -> Process& {
        return machine.job(name,
                           {"--persistent", "64MiB", "--ephemeral", "32MiB", "--work", "500", "--touch", "pages",
                            "--iterations", iterations, "--iterations-known"},
                           {{"SALUS_PAGE_DIR", "/proc"}});
    };
    Process& a = job("a", "600");
    ASSERT_TRUE(machine.goes_on("a"));
    Process& b = job("b", "400");
    ASSERT_TRUE(machine.goes_on("b"));
    Process& c = job("c", "50");
    // It has to wait until another ends, or, if its first iteration cannot be finished for lack of room, is told so.
    const int status = c.wait();
    EXPECT_TRUE(status == 0 || (status == 1 && c.output().find("out of memory") != std::string::npos)) << c.output();
    EXPECT_EQ(b.wait(), 0) << b.output();
    EXPECT_EQ(a.wait(), 0) << a.output();
    for (const char* name : {"a", "b"}) EXPECT_EQ(machine.report(name)["counters"].value("page_outs", -1), 0);
}

// ------------------------------------------------------------------------------------------------- bad conversation

int raw_connection(const Machine& machine) {
    Result<os::Descriptor> socket = os::connect_to(machine.socket());
    EXPECT_TRUE(socket.ok());
    return socket ? socket.value().release() : -1;
}

TEST_F(Faults, FloodsOfConnectionsAndMessagesDoNotKeepJobsFromRunning) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB"});
    machine.job("a", small());
    machine.job("b", small());
    ASSERT_TRUE(machine.goes_on("a"));
    std::vector<os::Descriptor> sockets;
    for (int i = 0; i < 300; ++i) sockets.emplace_back(raw_connection(machine));
    const wire::Packet command = wire::encode(wire::AskStatus{});
    std::size_t sent = 0;
    const double until = seconds_now() + 1.0;
    while (seconds_now() < until) {
        for (const os::Descriptor& socket : sockets) {
            if (::send(socket.get(), command.data(), command.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) ++sent;
        }
    }
    EXPECT_GT(sent, 1000u);
    EXPECT_TRUE(machine.goes_on("a", 20));
    EXPECT_TRUE(machine.goes_on("b", 20));
    sockets.clear();
    expect_service_works(machine);
}

TEST_F(Faults, GarbageAndTruncatedMessagesCostOnlyTheConnection) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB"});
    machine.job("a", small());
    ASSERT_TRUE(machine.goes_on("a"));
    wire::Packet unknown = wire::encode(wire::Leave{});
    unknown[6] = std::byte{99};
    const wire::Packet out_of_place = wire::encode(wire::Acknowledge{7, 7});
    const wire::Packet no_page = wire::encode(wire::Attach{});
    const std::string noise(700, '\xa5');
    const auto try_it = [&](const void* data, std::size_t size) {
        const os::Descriptor socket(raw_connection(machine));
        ASSERT_EQ(::send(socket.get(), data, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
        // One line of why, and then the end.
        wire::Received answer = wire::receive(socket.get());
        EXPECT_TRUE(std::holds_alternative<wire::Sorry>(answer.message));
        EXPECT_EQ(wire::receive(socket.get()).kind, wire::Received::Kind::kClosed);
    };
    try_it(noise.data(), noise.size());
    try_it(noise.data(), 1);
    try_it(unknown.data(), unknown.size());
    try_it(unknown.data(), unknown.size() - 1);
    try_it(out_of_place.data(), out_of_place.size());
    try_it(no_page.data(), no_page.size());
    EXPECT_TRUE(machine.goes_on("a"));
    expect_service_works(machine);
}

TEST_F(Faults, AClientOfAnotherVersionIsToldSo) {
    Machine machine({"--capacity", "1GiB"});
    wire::Packet packet = wire::encode(wire::Attach{});
    packet[4] = std::byte{77};
    const os::Descriptor socket(raw_connection(machine));
    ASSERT_GT(::send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL), 0);
    const wire::Received answer = wire::receive(socket.get());
    const auto* sorry = std::get_if<wire::Sorry>(&answer.message);
    ASSERT_TRUE(sorry);
    EXPECT_EQ(sorry->why.view(), "speaks protocol version 77, not " + std::to_string(wire::kVersion));
}

TEST_F(Faults, AControlWordOfNonsenseCostsOnlyItsClient) {
    Machine machine({"--policy", "rr", "--capacity", "1GiB", "--min-turn-ms", "0"});
    machine.job("a", small());
    ASSERT_TRUE(machine.goes_on("a"));
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const os::Descriptor page_file(::memfd_create("page", MFD_ALLOW_SEALING | MFD_CLOEXEC));
        ASSERT_EQ(::ftruncate(page_file.get(), kControlPageSize), 0);
        ASSERT_EQ(::fcntl(page_file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        const os::Descriptor notify(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        auto* page = static_cast<ControlPage*>(
            ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, page_file.get(), 0));
        const os::Descriptor socket(raw_connection(machine));
        const int descriptors[] = {page_file.get(), notify.get()};
        ASSERT_TRUE(wire::send(socket.get(), wire::Attach{}, descriptors));
        std::uint64_t noise = seed;
        for (int i = 0; i < 200; ++i) {
            noise = noise * 6364136223846793005u + 1442695040888963407u;
            page->word.store(noise >> 20);
            page->iterations.store(noise);
            page->busy_ns.store(noise << 3);
            page->wanted_ephemeral.store(noise >> 8);
            const std::uint64_t one = 1;
            ASSERT_EQ(::write(notify.get(), &one, sizeof one), 8);
        }
        ::munmap(page, kControlPageSize);
    }
    EXPECT_TRUE(machine.goes_on("a", 20));
    expect_service_works(machine);
}

// -------------------------------------------------------------------------------------------------------- no leaks

std::size_t count_entries(const std::string& directory) {
    std::error_code error;
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory, error)) ++count;
    return count;
}

std::size_t count_lines(const std::string& path) {
    const std::string text = text_of(path);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t resident_kib(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string word; file >> word;) {
        std::size_t kib = 0;
        if (word == "Rss:" && file >> kib) return kib;
    }
    return 0;
}

TEST_F(Faults, AChildHasNothingToGiveBack) {
    const Machine machine({"--capacity", "1GiB"});
    ::setenv("SALUS_SOCKET", machine.socket().c_str(), 1);
    salus_client* client = nullptr;
    ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
    salus_free(client, salus_alloc(client, 8 << 20, SALUS_PERSISTENT));
    const pid_t child = ::fork();
    if (child == 0) ::_exit(salus_give_back(client) == 0 ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(salus_detach(client), SALUS_OK);
}

TEST_F(Faults, AThousandAttachmentsLeakNothing) {
    Machine machine({"--capacity", "1GiB", "--log-level", "warning", "--trace-limit", "1MiB"});
    ::setenv("SALUS_SOCKET", machine.socket().c_str(), 1);
    const std::string service = "/proc/" + std::to_string(machine.service().pid());
    const auto cycle = [&](int times) {
        for (int i = 0; i < times; ++i) {
            salus_client* client = nullptr;
            ASSERT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
            ASSERT_EQ(salus_begin(client), SALUS_OK);
            void* block = salus_alloc(client, 2 << 20, SALUS_AUTO);
            ASSERT_TRUE(block);
            if (i % 2 == 0) salus_free(client, block);  // the rest goes with the client
            ASSERT_EQ(salus_end(client), SALUS_OK);
            ASSERT_EQ(salus_detach(client), SALUS_OK);
        }
    };
    cycle(100);  // whatever is set up once is there now
    ASSERT_TRUE(eventually([&] { return machine.status()["jobs"].empty(); }));
    const std::size_t own_files = count_entries("/proc/self/fd");
    const std::size_t own_maps = count_lines("/proc/self/maps");
    // The least of several looks: a connection may just be closing, a roster just be written.
    const auto files_of_service = [&] {
        std::size_t least = count_entries(service + "/fd");
        for (int i = 0; i < 50; ++i) {
            sleep_s(0.005);
            least = std::min(least, count_entries(service + "/fd"));
        }
        return least;
    };
    const std::size_t their_files = files_of_service();
    const std::size_t their_maps = count_lines(service + "/maps");
    const std::size_t their_kib = resident_kib(machine.service().pid());
    cycle(1000);
    ASSERT_TRUE(eventually([&] { return machine.status()["jobs"].empty(); }));
    EXPECT_EQ(count_entries("/proc/self/fd"), own_files);
    if (!kSanitized) {  // their allocators map as they go
        EXPECT_LE(count_lines("/proc/self/maps"), own_maps + 2);
        EXPECT_LE(count_lines(service + "/maps"), their_maps + 2);
    }
    EXPECT_TRUE(eventually([&] { return files_of_service() == their_files; })) << files_of_service() << ", " << their_files;
    EXPECT_EQ(machine.log(), "");  // nobody was dropped
    if (!kSanitized) {
        EXPECT_LE(resident_kib(machine.service().pid()), their_kib + 512);
    }
}

}  // namespace
}  // namespace salus::test
