// The service in this process, with clients that may break the protocol. tests/fuzz_service.cpp does the same at random.
#include "service/server.h"

#include <dirent.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "core/trace.h"
#include "device/host/host_lane_memory.h"
#include "os/clock.h"
#include "policies/table.h"
#include "service/client_fixture.h"
#include "wire/assignments.h"
#include "wire/pass_on.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

class ServerTest : public ::testing::Test {
protected:
    ServerTest() : check_handler_(set_check_handler(throw_check_failure)) {
        char name[] = "/tmp/salus-server-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        options_.capacity = gibibytes(1);
        options_.socket = directory_ + "/run/socket";
        options_.state = directory_ + "/state";
        set_log_level(LogLevel::kError);
        auto server = Server::open(options_);
        EXPECT_TRUE(server.ok()) << server.error();
        server_ = std::move(server).value();
    }
    ~ServerTest() override {
        server_.reset();
        set_log_level(LogLevel::kInfo);
        set_check_handler(check_handler_);
        fs::remove_all(directory_);
    }

    void step(int times = 3) {
        for (int i = 0; i < times; ++i) server_->step(os::now());
    }
    std::unique_ptr<RawClient> connect(Connected connected = connected_pair()) {
        server_->adopt(std::move(connected.theirs));
        return std::make_unique<RawClient>(std::move(connected.ours));
    }
    /// An attached client; null if the service refused it.
    std::unique_ptr<RawClient> attach(Connected connected = connected_pair(), const wire::Attach& attach = {}) {
        auto client = connect(std::move(connected));
        EXPECT_TRUE(client->attach(attach));
        step();
        return heard<wire::Welcome>(*client) ? std::move(client) : nullptr;
    }
    template <typename T>
    std::optional<T> heard(RawClient& client) {
        const wire::Received received = client.hear();
        if (received.kind != wire::Received::Kind::kMessage || !std::holds_alternative<T>(received.message)) return {};
        return std::get<T>(received.message);
    }
    /// The service's answer to a command.
    std::optional<std::string> answer(const wire::Command& command) {
        auto client = connect();
        EXPECT_TRUE(client->say(wire::message_of(command)));
        step();
        wire::Received received = client->hear();
        if (received.kind != wire::Received::Kind::kMessage || !received.descriptors[0]) return std::nullopt;
        std::string text(std::get<wire::Answer>(received.message).size, '\0');
        if (::pread(received.descriptors[0].get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
            return {};
        return text;
    }

    /// The answer to a command for a job without a name.
    static std::string is_told(std::uint32_t job) { return fmt::format(R"({{"job":{},"name":""}})", job); }

    const Shell& shell(std::size_t device = 0) const { return server_->devices()[device]->shell(); }

    std::string directory_;
    Options options_;
    std::unique_ptr<Server> server_;

private:
    CheckHandler check_handler_;
};

/// A service that shares two host devices, with clients in processes of their own.
class SeveralDevicesTest : public ServerTest {
protected:
    SeveralDevicesTest() { open(); }

    void open() {
        server_.reset();
        const auto two = []() -> Result<Server::Devices> {
            Server::Devices devices;
            for (int i = 0; i < 2; ++i) devices.push_back(device::make_host_lane_memory());
            return devices;
        };
        auto server = Server::open(options_, two);
        ASSERT_TRUE(server.ok()) << server.error();
        server_ = std::move(server).value();
    }
    std::unique_ptr<RawClient> attach_from(IdleProcess& process, const wire::Attach& wanted = {}) {
        return attach(process.connect(), wanted);
    }
    /// The client asks to run. True if it gets a grant.
    bool runs(RawClient& client) {
        client.change_word([](const control::Word& word) { return control::begin(word).next; });
        step();
        return control::unpack(client.page().word).state == control::State::kGranted;
    }
};

TEST_F(SeveralDevicesTest, ClientsOfDifferentDevicesRunAtOnceAndThoseOfOneByTurns) {
    IdleProcess processes[3];
    std::unique_ptr<RawClient> clients[3];
    for (int i = 0; i < 3; ++i) {
        clients[i] = attach_from(processes[i]);
        ASSERT_TRUE(clients[i]);
    }
    EXPECT_EQ(shell(0).sessions().size(), 2u);
    EXPECT_EQ(shell(1).sessions().size(), 1u);
    EXPECT_EQ(shell(0).sessions().begin()->first, shell(1).sessions().begin()->first) << "each numbers its own clients";
    EXPECT_TRUE(runs(*clients[0]));
    EXPECT_TRUE(runs(*clients[1]));
    EXPECT_FALSE(runs(*clients[2])) << "the first runs there";
}

TEST_F(SeveralDevicesTest, AJobsClientsGoWhereTheJobIs) {
    IdleProcess first, second;
    wire::Attach wanted;
    wanted.job = 5;
    const auto one = attach_from(first, wanted);
    const auto two = attach_from(second, wanted);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(shell(0).sessions().size(), 2u);
    EXPECT_TRUE(shell(1).sessions().empty());
}

TEST_F(SeveralDevicesTest, AfterARestartAClientIsWhereItsMemoryIs) {
    IdleProcess first, second;
    const auto one = attach_from(first);
    const auto two = attach_from(second);
    ASSERT_TRUE(one && two);
    two->page().wanted_persistent = 10 << 20;
    step();
    open();
    const auto again = attach_from(second);
    ASSERT_TRUE(again);
    EXPECT_TRUE(shell(0).sessions().empty());
    ASSERT_EQ(shell(1).sessions().size(), 1u);
    EXPECT_EQ(shell(1).sessions().begin()->second->process.pid, second.pid());
}

TEST_F(ServerTest, AClientIsWelcomedAndLeaves) {
    auto client = attach();
    ASSERT_TRUE(client);
    EXPECT_EQ(shell().sessions().size(), 1u);
    EXPECT_TRUE(client->say(wire::Leave{}));
    step();
    EXPECT_TRUE(shell().sessions().empty());
    EXPECT_EQ(client->hear().kind, wire::Received::Kind::kClosed);
    EXPECT_TRUE(attach());
}

TEST_F(ServerTest, AStateDirectoryHasOneService) {
    Options other = options_;
    other.socket = directory_ + "/other/socket";
    const auto refused = Server::open(other);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), options_.state + " is in use by another service, at " + options_.socket +
                                   "; --state or SALUS_STATE names another directory");
    server_.reset();
    const auto taken = Server::open(other);
    EXPECT_TRUE(taken) << taken.error();
}

TEST_F(ServerTest, OnlyASocketIsReplaced) {
    server_.reset();
    std::ofstream(options_.socket) << "of the user";
    const auto refused = Server::open(options_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), options_.socket + " exists and is not a socket");
    EXPECT_EQ(fs::file_size(options_.socket), 11u);
}

TEST_F(ServerTest, AProcessAttachesOnce) {
    auto client = attach();
    ASSERT_TRUE(client);
    EXPECT_FALSE(attach());
    client->hang_up();
    step();
    const auto again = attach();
    EXPECT_TRUE(again);
    EXPECT_EQ(shell().sessions().size(), 1u) << "what it was before is over";
}

TEST_F(ServerTest, ANewcomerIsGrantedProfilingTurns) {
    auto client = attach();
    ASSERT_TRUE(client);
    for (std::uint64_t i = 1; i <= 2; ++i) {
        client->change_word([](control::Word word) { return control::begin(word).next; });
        step();
        ASSERT_EQ(control::unpack(client->page().word).state, control::State::kGranted) << i;
        EXPECT_GT(client->page().allowed_private, 0u);
        client->page().wanted_persistent = std::uint64_t{1} << 20;
        client->page().wanted_ephemeral = std::uint64_t{2} << 20;
        client->page().iterations = i;
        client->change_word([](control::Word word) {
            word = control::leave(control::begin(word).next)->next;
            return control::settle(word, /*drained=*/true, /*lane_clean=*/true).next;
        });
        step();
    }
    EXPECT_TRUE(shell().engine().find(ClientId{0})->profiled);
}

TEST_F(ServerTest, WhatAClientWantsAndWhatItMayHaveAreTwoWords) {
    wire::Attach profiled;
    profiled.flags = wire::Attach::kProfiled;
    profiled.persistent = std::uint64_t{3} << 20;
    profiled.ephemeral = std::uint64_t{2} << 20;
    auto client = attach(connected_pair(), profiled);
    ASSERT_TRUE(client);
    ControlPage& page = client->page();
    EXPECT_EQ(page.wanted_persistent, 0u) << "the service writes no wish of a client";
    page.wanted_persistent = std::uint64_t{5} << 20;  // it has learned more since, but not reported it yet
    client->change_word([](control::Word word) { return control::begin(word).next; });
    step();
    while (!std::holds_alternative<wire::MapLane>(client->hear().message)) {}
    const Lane& lane = shell().engine().lanes().all().front();
    EXPECT_TRUE(client->say(wire::Acknowledge{static_cast<std::uint32_t>(lane.id), lane.mappings.front().version}));
    step();
    ASSERT_EQ(control::unpack(page.word).state, control::State::kGranted);
    EXPECT_EQ(page.allowed_private, std::uint64_t{3} << 20);
    EXPECT_EQ(page.wanted_persistent, std::uint64_t{5} << 20);
    EXPECT_EQ(page.wanted_ephemeral, 0u);
}

// A client's name may be any bytes except control characters. The status must still be delivered.
TEST_F(ServerTest, NamesThatAreNoUtf8AreShownSomehow) {
    const std::string cut = std::string(62, 'x') + "\xc3\xa9";  // Text<64> cuts it within a character
    for (const std::string& name : {std::string("\xff\xfe"), cut}) {
        wire::Attach with_name;
        with_name.name = wire::Text<64>(name);
        auto client = attach(connected_pair(), with_name);
        ASSERT_TRUE(client);
        std::optional<std::string> status;
        EXPECT_NO_THROW(status = answer(wire::AskStatus{}));
        ASSERT_TRUE(status.has_value());
        EXPECT_EQ(nlohmann::json::parse(*status)["jobs"].size(), 1u);
        EXPECT_TRUE(client->say(wire::Leave{}));
        step();
    }
    auto runner = connect();
    wire::Run run;
    run.name = wire::Text<64>("\xff");
    run.log = wire::Text<256>("/tmp/\xff");
    EXPECT_TRUE(runner->say(run));
    step();
    EXPECT_NO_THROW(EXPECT_TRUE(answer(wire::AskStatus{}).has_value()));
}

TEST_F(ServerTest, AfterARestartANewJobIsNotTakenForOneThatMayComeBack) {
    const auto number_of = [this](RawClient& runner, std::uint32_t wanted) {
        wire::Run run;
        run.job = wanted;
        EXPECT_TRUE(runner.say(run));
        step();
        const auto running = heard<wire::Running>(runner);
        return running ? running->job : 0;
    };
    EXPECT_EQ(number_of(*connect(), 0), 1u);
    server_.reset();
    auto server = Server::open(options_);
    ASSERT_TRUE(server.ok()) << server.error();
    server_ = std::move(server).value();
    const auto fresh = connect();
    EXPECT_EQ(number_of(*fresh, 0), 2u);
    const auto back = connect();
    EXPECT_EQ(number_of(*back, 1), 1u);
}

class RunHistoryTest : public ServerTest {
protected:
    std::unique_ptr<RawClient> announce(std::uint32_t job, std::uint64_t command, std::uint64_t program) {
        wire::Run run;
        run.job = job;
        run.command_key = command;
        run.program_key = program;
        run.command = wire::Text<148>("train");
        auto runner = connect();
        runner->say(run);
        step();
        const auto running = heard<wire::Running>(*runner);
        EXPECT_TRUE(running.has_value());
        job_ = running ? running->job : 0;
        return runner;
    }
    /// A client of the last job, which completed iterations before it attached.
    std::unique_ptr<RawClient> attach_to_job(std::uint64_t iterations_before = 0, std::uint64_t iterations_total = 0) {
        auto client = connect();
        client->page().iterations = iterations_before;
        wire::Attach attach;
        attach.job = job_;
        attach.iterations_total = iterations_total;
        client->attach(attach);
        step();
        EXPECT_TRUE(heard<wire::Welcome>(*client));
        return client;
    }
    void run_to_end(std::uint64_t command, std::uint64_t program, std::uint64_t iterations, std::int32_t status = 0) {
        auto runner = announce(0, command, program);
        auto client = attach_to_job();
        client->page().iterations = iterations;
        client->page().busy_ns = iterations * 1'000'000;
        client->say(wire::Leave{});
        step();
        runner->say(wire::Ended{status, 5'000'000'000});
        step();
        EXPECT_EQ(runner->hear().kind, wire::Received::Kind::kClosed) << "who hears this knows that it is written down";
    }
    nlohmann::json row() {
        const auto status = answer(wire::AskStatus{});
        return status ? nlohmann::json::parse(*status)["jobs"][0] : nlohmann::json();
    }
    std::uint32_t job_ = 0;
};

TEST_F(RunHistoryTest, AClientThatStatesNoLengthGetsThatOfTheLastRun) {
    run_to_end(1, 2, 500);
    const auto runner = announce(0, 1, 2);
    const auto client = attach_to_job();
    EXPECT_EQ(row()["iterations_total"], 500);
    EXPECT_EQ(row()["estimate"], "history");
    EXPECT_DOUBLE_EQ(row()["left_s"], 0.5) << "500 of a millisecond, while it has no rate of its own";
    client->page().iterations = 250;
    EXPECT_GT(row()["left_s"], 0);
    client->page().iterations = 501;
    EXPECT_FALSE(row().contains("left_s") || row().contains("estimate")) << "it has outrun the last one";
    EXPECT_EQ(answer(wire::set_job({job_, {}}, {.iterations = 600})), is_told(job_));
    EXPECT_EQ(row()["estimate"], "stated");
}

TEST_F(RunHistoryTest, WhatIsStatedCounts) {
    run_to_end(1, 2, 500);
    const auto runner = announce(0, 1, 2);
    const auto client = attach_to_job(0, 70);
    EXPECT_EQ(row()["iterations_total"], 70);
    EXPECT_EQ(row()["estimate"], "stated");
    EXPECT_DOUBLE_EQ(row()["left_s"], 0.07);
    client->page().iterations = 70;
    EXPECT_EQ(row()["left_s"], 0.0);
    client->page().iterations = 71;
    EXPECT_FALSE(row().contains("left_s")) << "it has outrun what it stated";
}

TEST_F(RunHistoryTest, AfterARestartTheClientMayComeFirst) {
    run_to_end(1, 2, 500);
    server_.reset();
    server_ = std::move(Server::open(options_)).value();
    job_ = 7;
    const auto client = attach_to_job(100);
    EXPECT_FALSE(row().contains("estimate"));
    const auto runner = announce(7, 1, 2);
    EXPECT_EQ(row()["iterations_total"], 500);
    EXPECT_EQ(row()["estimate"], "history");
    EXPECT_EQ(shell().engine().find(ClientId{0})->facts.iterations_total, 400u);
    EXPECT_EQ(row()["job"], 7);
}

TEST_F(RunHistoryTest, AfterARestartWhatIsDoneIsSubtracted) {
    run_to_end(1, 2, 500);
    server_.reset();
    server_ = std::move(Server::open(options_)).value();
    const auto runner = announce(7, 1, 2);
    const auto client = attach_to_job(100);
    EXPECT_EQ(row()["iterations_total"], 500);
    EXPECT_EQ(shell().engine().find(ClientId{0})->facts.iterations_total, 400u);
}

TEST_F(RunHistoryTest, OnlyRunsThatAreSaidToHaveEndedAreRemembered) {
    {
        auto runner = announce(0, 1, 2);
        const auto client = attach_to_job();
        client->page().iterations = 500;
        client->say(wire::Leave{});
        step();
        runner->hang_up();
        step();
    }
    run_to_end(3, 4, 500, /*status=*/1);
    run_to_end(0, 0, 500);  // by an older version, which sends no keys
    for (const std::uint64_t command : {1u, 3u, 0u}) {
        const auto runner = announce(0, command, command + 1);
        const auto client = attach_to_job();
        EXPECT_FALSE(row().contains("estimate")) << command;
        client->say(wire::Leave{});
        step();
    }
}

TEST_F(RunHistoryTest, AJobIsAsLongAsTheLongestOfItsClients) {
    IdleProcess process;
    auto runner = announce(0, 1, 2);
    wire::Attach of_job;
    of_job.job = job_;
    auto other = attach(process.connect(), of_job);
    ASSERT_TRUE(other);
    auto client = attach_to_job();
    client->page().iterations = 300;
    client->say(wire::Leave{});
    step();
    other->page().iterations = 20;  // it has not left yet when the job ends
    runner->say(wire::Ended{0, 1});
    step();
    process.end();
    step();
    runner = announce(0, 1, 2);
    client = attach_to_job();
    EXPECT_EQ(row()["iterations_total"], 300);
}

class MetricsTest : public RunHistoryTest {
protected:
    /// With these options besides.
    std::string reload() {
        server_->on_reload([this] { return Result<Options>(options_); });
        return answer(wire::ReloadService{}).value_or("refused");
    }
    std::string path() const { return directory_ + "/metrics"; }
    void serve() {
        options_.metrics = "unix:" + path();
        options_.log_level = LogLevel::kError;
        EXPECT_NE(reload().find("metrics unix:"), std::string::npos);
    }
    /// What a reader gets who may see everything.
    std::string metrics() {
        const os::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path().data(), path().size());
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_TRUE(os::send_some(socket.get(), "GET /metrics HTTP/1.1\r\n\r\n"));
        std::string text;
        for (int i = 0; i < 100 && os::receive_some(socket.get(), text, 65536); ++i) step(1);
        return text;
    }
    std::string value_of(const std::string& name, const std::string& label) {
        std::istringstream lines(metrics());
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with(name + "{") && line.find(label) != std::string::npos)
                return line.substr(line.rfind(' ') + 1);
        }
        return "";
    }
    /// A text is given to other readers, too, while it is fresh.
    static void let_age() {
        const Instant until = os::now() + MetricsServer::kFreshFor;
        while (os::now() < until) ::usleep(1000);
    }
};

TEST_F(MetricsTest, AreServedWhereTheConfigurationSays) {
    serve();
    const auto runner = announce(0, 1, 2);
    EXPECT_EQ(value_of("salus_job_info", "command=\"train\""), "1");
    EXPECT_EQ(value_of("salus_jobs", "starting"), "1");
    options_.metrics = "unix:" + directory_ + "/state";  // a directory
    EXPECT_NE(reload().find("metrics unix:"), std::string::npos) << "jobs are served all the same";
    EXPECT_FALSE(fs::exists(path())) << "and nobody there any more";
    options_.metrics = "off";
    reload();
    serve();
    EXPECT_EQ(value_of("salus_jobs", "starting"), "1");
}

TEST_F(MetricsTest, WhatAJobHasDoneStaysWhenAClientLeavesAndEndsWithIt) {
    serve();
    IdleProcess process;
    auto runner = announce(0, 1, 2);
    const std::string job = fmt::format("job_id=\"{}\"", job_);
    wire::Attach of_job;
    of_job.job = job_;
    auto other = attach(process.connect(), of_job);
    ASSERT_TRUE(other);
    auto client = attach_to_job(/*iterations_before=*/1000);
    client->page().iterations = 1300;
    client->page().busy_ns = 2'500'000'000;
    client->page().iterations_by_time[3] = 300;
    other->page().iterations = 20;
    EXPECT_EQ(value_of("salus_job_iterations_total", job), "320") << "not those under an earlier service";
    EXPECT_EQ(value_of("salus_job_iteration_seconds_count", job), "300");
    client->say(wire::Leave{});
    step();
    let_age();
    EXPECT_EQ(value_of("salus_job_iterations_total", job), "320");
    EXPECT_EQ(value_of("salus_job_device_seconds_total", job), "2.5");
    other->page().busy_ns = ~0ull;  // it may write anything
    let_age();
    EXPECT_FALSE(value_of("salus_job_device_seconds_total", job).empty());
    other->page().busy_ns = 0;
    let_age();
    EXPECT_GE(std::stod(value_of("salus_job_device_seconds_total", job)), 1e9) << "what was shown does not fall";
    process.end();
    runner->say(wire::Ended{0, 1});
    step();
    let_age();
    EXPECT_EQ(metrics().find(job), std::string::npos);
}

TEST_F(RunHistoryTest, ThatAJobHasEndedIsForItsRunnerToSay) {
    auto stranger = connect();
    stranger->say(wire::Ended{0, 1});
    step();
    EXPECT_TRUE(heard<wire::Sorry>(*stranger));
}

// A client that leaves with impossible figures is removed all the same: its number is free for the next.
TEST_F(ServerTest, WhoLeavesWithNonsenseOnItsPageIsGone) {
    for (const std::uint64_t iterations : {std::uint64_t{1}, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
        auto client = connect();
        client->page().iterations = 2;
        client->attach();
        step();
        ASSERT_TRUE(heard<wire::Welcome>(*client)) << iterations;
        client->page().iterations = iterations;
        EXPECT_TRUE(client->say(wire::Leave{}));
        step();
        EXPECT_TRUE(shell().engine().clients().empty()) << iterations;
        std::unique_ptr<RawClient> next;
        EXPECT_NO_THROW(next = attach()) << iterations;
        ASSERT_TRUE(next) << iterations;
        next->say(wire::Leave{});
        step();
    }
}

// A client's mistakes are what one wants to replay.
TEST_F(ServerTest, ATraceWithNonsenseInItReplays) {
    auto client = connect();
    client->page().iterations = 2;
    client->attach();
    step();
    client->page().iterations = 1;  // a negative number since then
    client->say(wire::Leave{});
    step();
    const std::string path = server_->devices().front()->journal().trace().current_path();
    server_.reset();  // writes the whole trace
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_NE(text.str().find("leave client=0 iterations="), std::string::npos);
    const auto replay = replay_trace(text.str(), find_policy, fallback_policy());
    ASSERT_TRUE(replay.ok()) << replay.error();
    EXPECT_EQ(replay.value().difference, "");
}

TEST_F(ServerTest, TimesOnThePageMayBeAnything) {
    auto client = attach();
    ASSERT_TRUE(client);
    const std::uint64_t most = ~std::uint64_t{0};
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1, most}) {
        client->page().begun_ns = client->page().ended_ns = client->page().busy_ns = value;
        for (std::uint64_t word = 0; word < 128; ++word) {
            client->page().word = word;
            client->notify();
            step(1);
        }
    }
    client->hang_up();
    step();
    EXPECT_TRUE(attach());
}

// A weight next to nothing is refused: time divided by it would be infinite, and no policy can rank that. One client must
// not cost all others their policy.
TEST_F(ServerTest, AWeightNextToNothingIsRefused) {
    for (const double weight : {5e-324, 1e-300, 1e-100}) {
        wire::Attach light;
        light.weight = weight;
        auto client = attach(connected_pair(), light);
        EXPECT_FALSE(client) << weight;
        if (!client) continue;
        client->say(wire::Leave{});
        step();
    }
    auto client = attach();
    ASSERT_TRUE(client);
    const wire::JobReference job{shell().sessions().begin()->second->job, {}};
    EXPECT_NE(answer(wire::set_job(job, {.weight = 1e-300})), is_told(job.number));
    EXPECT_EQ(shell().engine().find(ClientId{0})->facts.weight, 1.0);
    EXPECT_EQ(answer(wire::set_job(job, {.weight = 0.01})), is_told(job.number));
    EXPECT_EQ(shell().engine().find(ClientId{0})->facts.weight, 0.01);
}

TEST_F(ServerTest, AClientsClassIsWhatItShowsUnlessItsUserHasSaid) {
    auto client = attach();
    ASSERT_TRUE(client);
    const auto tell = [&](bool interactive, ClassReason reason) {
        client->say(wire::Class{static_cast<std::uint16_t>(interactive), static_cast<std::uint16_t>(reason)});
        step();
    };
    const shell::Session& session = *shell().sessions().begin()->second;
    const auto is_interactive = [&] { return shell().engine().find(session.id)->facts.interactive; };
    EXPECT_EQ(session.client_class, ClientClass{});
    tell(true, ClassReason::kWaits);
    EXPECT_EQ(session.client_class, (ClientClass{true, ClassReason::kWaits}));
    EXPECT_TRUE(is_interactive());
    tell(false, ClassReason::kSaid);
    EXPECT_EQ(session.client_class, (ClientClass{false, ClassReason::kUnknown})) << "a client cannot speak for its user";
    EXPECT_EQ(answer(wire::set_job({session.job, {}}, {.interactive = true})), is_told(session.job));
    EXPECT_TRUE(is_interactive());
    tell(false, ClassReason::kTrains);
    EXPECT_EQ(session.client_class, (ClientClass{true, ClassReason::kSaid}));
    EXPECT_TRUE(is_interactive());
}

/// In these tests, this process is the job's runner. It blocks SIGTERM, and told() takes it.
class KillTest : public RunHistoryTest {
protected:
    KillTest() {
        ::sigemptyset(&only_);
        ::sigaddset(&only_, SIGTERM);
        ::sigprocmask(SIG_BLOCK, &only_, &before_);
    }
    ~KillTest() override { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
    /// The SIGTERM that was sent to us, if any.
    std::optional<siginfo_t> told() {
        const timespec at_once{};
        siginfo_t info{};
        return ::sigtimedwait(&only_, &info, &at_once) == SIGTERM ? std::optional(info) : std::nullopt;
    }
    /// The signal that ended the child; 0: none.
    int ended_by() {
        int status = 0;
        for (int i = 0; i < 500 && ::waitpid(child_.pid(), &status, WNOHANG) == 0; ++i) ::usleep(10'000);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    std::unique_ptr<RawClient> attach_from(IdleProcess& process) {
        wire::Attach with_job;
        with_job.job = job_;
        return attach(process.connect(), with_job);
    }
    std::optional<std::string> kill(bool at_once) { return answer(wire::KillJob{{job_, {}}, at_once ? 1u : 0u}); }

    IdleProcess child_;
    sigset_t only_{};
    sigset_t before_{};
};

TEST_F(KillTest, OfACommandThatHasNotAttachedTheRunnerIsTold) {
    const auto runner = announce(0, 1, 2);
    EXPECT_EQ(kill(/*at_once=*/false), is_told(job_));
    const auto gently = told();
    ASSERT_TRUE(gently);
    EXPECT_NE(gently->si_code, SI_QUEUE);
    EXPECT_EQ(kill(/*at_once=*/true), is_told(job_));
    const auto at_once = told();
    ASSERT_TRUE(at_once);
    EXPECT_EQ(at_once->si_code, SI_QUEUE);
    EXPECT_EQ(at_once->si_value.sival_int, wire::kPassOnAsKill);
}

TEST_F(KillTest, ACommandThatHasAttachedIsToldAndItsRunnerIsNot) {
    const auto runner = announce(0, 1, 2);
    const auto client = attach_from(child_);
    ASSERT_TRUE(client);
    EXPECT_EQ(kill(/*at_once=*/false), is_told(job_));
    EXPECT_FALSE(told()) << "which would pass it on, a second time";
    EXPECT_EQ(kill(/*at_once=*/true), is_told(job_));
    EXPECT_FALSE(told());
    EXPECT_EQ(ended_by(), SIGKILL);
}

/// A process that has announced itself.
class JoinedTest : public KillTest {
protected:
    std::unique_ptr<RawClient> join(Connected connected, std::uint32_t job = 0, std::uint8_t runs = 0) {
        auto client = connect(std::move(connected));
        wire::Run run;
        run.job = job;
        run.joins = 1;
        run.runs = runs;
        run.command_key = 1;
        run.program_key = 2;
        client->say(run);
        step();
        if (const auto running = heard<wire::Running>(*client)) job_ = running->job;
        else return nullptr;
        return client;
    }
    /// The exit statuses that the history has.
    std::vector<int> recorded() {
        std::vector<int> statuses;
        const auto all = answer(wire::AskHistory{});
        const nlohmann::json commands = all ? nlohmann::json::parse(*all) : nlohmann::json::array();
        for (const auto& command : commands) statuses.push_back(command.value("status", -2));
        return statuses;
    }
};

TEST_F(JoinedTest, OneThatWasRefusedHasNotRun) {
    server_->devices()[0]->close("the GPU is lost");
    EXPECT_EQ(join(child_.connect()), nullptr);
    step();
    EXPECT_EQ(recorded(), std::vector<int>{});
}

TEST_F(JoinedTest, OneThatIsKilledHasRun) {
    const auto client = join(child_.connect());
    ASSERT_TRUE(client);
    EXPECT_EQ(kill(/*at_once=*/true), is_told(job_));
    EXPECT_EQ(ended_by(), SIGKILL);
    step();
    EXPECT_EQ(recorded(), std::vector<int>{-1});
}

TEST_F(JoinedTest, ItEndsWhenItSaysSoNotWhenItsClientLeaves) {
    const auto client = join(child_.connect());
    ASSERT_TRUE(client);
    wire::Attach with_job;
    with_job.job = job_;
    client->attach(with_job);
    step();
    ASSERT_TRUE(heard<wire::Welcome>(*client));
    const auto beside = join(child_.connect(), job_, /*runs=*/1);
    ASSERT_TRUE(beside);
    client->say(wire::Leave{});
    step();
    client->hang_up();
    step();
    EXPECT_EQ(recorded(), std::vector<int>{});
    beside->say(wire::Ended{3, 1'000'000});
    step();
    EXPECT_EQ(recorded(), std::vector<int>{3});
}

/// A process with this pid; -1: only root may choose one.
pid_t fork_as(pid_t pid) {
    clone_args wanted{};
    wanted.exit_signal = SIGCHLD;
    wanted.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
    wanted.set_tid_size = 1;
    const auto made = static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof wanted));
    if (made == 0) {
        for (;;) ::pause();
    }
    return made;
}

TEST_F(JoinedTest, AnotherProcessWithItsPidIsNotTakenForIt) {
    Connected connected = child_.connect();
    auto client = connect(std::move(connected));
    step();
    const int pid = child_.pid();
    child_.end();
    ::usleep(50'000);  // start times are in ticks
    const pid_t other = fork_as(pid);
    if (other < 0) GTEST_SKIP() << "SKIPPED: only root may choose a pid";
    wire::Run run;
    run.joins = 1;
    client->say(run);
    step();
    EXPECT_FALSE(heard<wire::Running>(*client));
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
}

// In one round of the loop, one process leaves and ends, and another attaches and gets its number.
TEST_F(ServerTest, TheEndOfAProcessThatLeftIsNotTheNextOnes) {
    IdleProcess process;
    auto first = attach(process.connect());
    ASSERT_TRUE(first);
    auto second = connect();
    step();
    first->say(wire::Leave{});
    second->attach();
    process.end();
    step();
    EXPECT_TRUE(heard<wire::Welcome>(*second));
    ASSERT_EQ(shell().sessions().size(), 1u) << "the second was taken for dead";
    EXPECT_EQ(shell().sessions().begin()->second->process.pid, ::getpid());
}

TEST_F(ServerTest, TheEndOfAProcessIsSeen) {
    IdleProcess process;
    auto client = attach(process.connect());
    ASSERT_TRUE(client);
    process.end();
    step();
    EXPECT_TRUE(shell().sessions().empty());
    EXPECT_TRUE(shell().engine().clients().empty());
}

}  // namespace
}  // namespace salus::service
