// More connections than make sense: the service stays idle, answers, and keeps its log short.
#include <sys/resource.h>
#include <sys/socket.h>

#include "os/descriptor.h"
#include "os/socket.h"
#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t times = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
    return times;
}

long descriptors_of(pid_t pid) {
    return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"), {});
}

double cpu_s_of(pid_t pid) {
    std::istringstream fields(text_of("/proc/" + std::to_string(pid) + "/stat"));
    std::string skipped;
    for (int i = 0; i < 13; ++i) fields >> skipped;  // "salusd" has no blank
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// As many as can be had at once: the others would have to wait.
std::vector<os::Descriptor> connect_many(const std::string& socket, int times) {
    std::vector<os::Descriptor> all;
    for (int i = 0; i < times; ++i) {
        Result<os::Descriptor> connection = os::connect_to(socket);
        if (connection) all.push_back(std::move(connection).value());
    }
    return all;
}

TEST(Flood, WithoutDescriptorsTheServiceWaitsAndSaysSoOnce) {
    Machine machine({"--capacity", "1GiB", "--device", "host"});
    const pid_t service = machine.service().pid();
    const auto most = static_cast<rlim_t>(descriptors_of(service)) + 8;
    const rlimit limit{most, most};
    ASSERT_EQ(::prlimit(service, RLIMIT_NOFILE, &limit, nullptr), 0);
    std::vector<os::Descriptor> flood = connect_many(machine.socket(), 60);
    ASSERT_EQ(flood.size(), 60u);
    ASSERT_TRUE(
        eventually([&] { return machine.log().find("no new connections: Too many open files") != std::string::npos; }));
    const double before_s = cpu_s_of(service);
    sleep_s(1);
    EXPECT_LT(cpu_s_of(service) - before_s, 0.2) << "it spins";
    EXPECT_EQ(count(machine.log(), "no new connections"), 1u);
    flood.clear();
    EXPECT_TRUE(eventually([&] { return machine.status().is_object(); }));
    EXPECT_EQ(count(machine.log(), "accepted all waiting connections"), 1u);
}

TEST(Flood, AUserHasSoManyConnectionsAndIsToldSo) {
    Machine machine({"--capacity", "1GiB", "--device", "host", "--connections-per-user", "8"});
    const std::string uid = std::to_string(::getuid());
    const std::string why = "user " + uid + " has 8 connections, and --connections-per-user allows no more";
    std::vector<os::Descriptor> flood;
    ASSERT_TRUE(eventually([&] {  // one that looked whether the service is there may still count
        flood.clear();
        flood = connect_many(machine.socket(), 8);
        Process ps = machine.salus({"ps"});
        return ps.wait() == 1 && ps.output() == "salus: " + why + "\n";
    }));
    EXPECT_NE(machine.log().find("is turned away: " + why), std::string::npos) << machine.log();
    flood.pop_back();
    EXPECT_TRUE(eventually([&] { return machine.salus({"ps"}).wait() == 0; }));
}

TEST(Flood, GarbageDoesNotFillTheLog) {
    constexpr int kTimes = 200;
    Machine machine({"--capacity", "1GiB", "--device", "host"});
    for (int i = 0; i < kTimes; ++i) {
        const Result<os::Descriptor> connection = os::connect_to(machine.socket());
        ASSERT_TRUE(connection.ok()) << connection.error();
        ASSERT_EQ(::send(connection.value().get(), "x", 1, MSG_NOSIGNAL), 1);
        const wire::Received answer = wire::receive(connection.value().get());
        ASSERT_TRUE(std::holds_alternative<wire::Sorry>(answer.message)) << "each one is told all the same";
    }
    machine.service().signal(SIGTERM);
    EXPECT_EQ(machine.service().wait(), 0);
    const std::string log = machine.log();
    const std::size_t written = count(log, "is dropped: a message of 1 bytes");
    EXPECT_GE(written, 1u);
    EXPECT_LE(written, 100u) << log;
    std::size_t held_back = 0;
    std::istringstream lines(log);
    for (std::string time, level, number, line; lines >> time >> level >> number && std::getline(lines, line);) {
        if (line.find("more lines about connections were suppressed") != std::string::npos) held_back += std::stoul(number);
    }
    EXPECT_EQ(written + held_back, static_cast<std::size_t>(kTimes)) << log;
}

}  // namespace
}  // namespace salus::test
