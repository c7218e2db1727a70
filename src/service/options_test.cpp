#include "service/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "os/places.h"

namespace salus::service {
namespace {

namespace fs = std::filesystem;

/// All options, so that a comparison forgets none.
std::string shown(const Options& o) {
    return fmt::format(
        "policy={} capacity={} lanes={} overlap={} paging={} page_gpu={} page_dir={} device={} placement={} mps={} "
        "min_turn={} socket={} state={} "
        "log_level={} "
        "trace_limit={} rehome_after={} page_idle={} all_users={} connections_per_user={} share_by_user={} hides_others={} "
        "jobs_max={} "
        "memory_max={} weight_max={} priority_max={} metrics={} job_mapping={}",
        o.policy, o.capacity.count, o.lanes, o.overlap ? (*o.overlap ? "measure" : "off") : "auto", o.paging, o.page_gpu,
        o.page_directory, o.device, static_cast<int>(o.placement), static_cast<int>(o.mps),
        o.min_turn.value_or(Duration{-1}).ns, o.socket, o.state, static_cast<int>(o.log_level), o.trace_limit.count,
        o.rehome_after.ns, o.page_idle_after.ns, o.all_users, o.connections_per_user, o.share_by_user, o.hides_others,
        o.user_limits.others.jobs, o.user_limits.others.memory.count, o.user_limits.others.weight.value_or(-1),
        o.user_limits.others.priority.value_or(-1), o.metrics, o.job_mapping);
}

/// The parsed options, or why they make no sense.
struct Outcome {
    Options options;
    std::string error;
    std::string text() const { return error.empty() ? shown(options) : "error: " + error; }
};

bool one_line(const std::string& text) { return !text.empty() && text.find('\n') == std::string::npos; }

class ServiceOptionsTest : public ::testing::Test {
protected:
    ServiceOptionsTest() {
        char name[] = "/tmp/salus-options-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
        for (const char* variable :
             {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME", "SALUS_STATE", "SALUS_SOCKET"}) {
            const char* value = std::getenv(variable);
            saved_.emplace_back(variable, value ? std::optional<std::string>(value) : std::nullopt);
            ::setenv(variable, (directory_ + "/" + variable).c_str(), 1);
        }
        fs::create_directory(directory_ + "/XDG_RUNTIME_DIR");  // one that is missing does not count
        ::unsetenv("SALUS_STATE");
        ::unsetenv("SALUS_SOCKET");
    }
    ~ServiceOptionsTest() override {
        for (const auto& [variable, value] : saved_) {
            if (value) ::setenv(variable, value->c_str(), 1);
            else ::unsetenv(variable);
        }
        fs::remove_all(directory_);
    }

    Outcome parse(std::vector<std::string> arguments) const {
        CLI::App program("", "salusd");
        const OptionsParser parser(program);
        try {
            std::reverse(arguments.begin(), arguments.end());  // CLI11 wants them in reverse
            program.parse(arguments);
            return {parser.finish(), ""};
        } catch (const CLI::ParseError& error) {
            return {{}, parser.explain(error)};
        }
    }
    std::string file() const { return directory_ + "/file.toml"; }
    Outcome parse_file(const std::string& text, std::vector<std::string> arguments = {}) const {
        std::ofstream(file()) << text;
        arguments.insert(arguments.begin(), {"--config", file()});
        return parse(std::move(arguments));
    }

    std::string directory_;

private:
    std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

/// A value for each option that is not its default, as on the command line and as in a TOML file.
struct Row {
    std::string name;
    std::string argument;
    std::string toml;
    std::string shows;
};
const std::vector<Row> kRows = {
    {"policy", "srtf", "\"srtf\"", "policy=srtf"},
    {"capacity", "3GiB", "\"3GiB\"", "capacity=3221225472"},
    {"lanes", "4", "4", "lanes=4"},
    {"overlap", "measure", "\"measure\"", "overlap=measure"},
    {"placement", "pack", "\"pack\"", "placement=1"},
    {"paging", "off", "\"off\"", "paging=false"},
    {"page-gpu", "on", "\"on\"", "page_gpu=true"},
    {"page-dir", "/", "\"/\"", "page_dir=/"},
    {"device", "host", "\"host\"", "device=host"},
    {"mps", "on", "\"on\"", "mps=1"},
    {"min-turn-ms", "2.5", "2.5", "min_turn=2500000"},
    {"rehome-after-s", "0.25", "0.25", "rehome_after=250000000"},
    {"page-idle-s", "90", "90", "page_idle=90000000000"},
    {"socket", "/tmp/a b/socket", "\"/tmp/a b/socket\"", "socket=/tmp/a b/socket"},
    {"state", "/tmp/state", "\"/tmp/state\"", "state=/tmp/state"},
    {"log-level", "debug", "\"debug\"", "log_level=3"},
    {"users", "all", "\"all\"", "all_users=true"},
    {"trace-limit", "64MiB", "\"64MiB\"", "trace_limit=67108864"},
    {"connections-per-user", "16", "16", "connections_per_user=16"},
    {"share-by", "user", "\"user\"", "share_by_user=true"},
    {"show-others", "numbers", "\"numbers\"", "hides_others=true"},
    {"user-jobs-max", "20", "20", "jobs_max=20"},
    {"user-memory-max", "4GiB", "\"4GiB\"", "memory_max=4294967296"},
    {"user-weight-max", "2.5", "2.5", "weight_max=2.5"},
    {"user-priority-max", "3", "3", "priority_max=3"},
    {"metrics", "127.0.0.1:9464", "\"127.0.0.1:9464\"", "metrics=127.0.0.1:9464"},
    {"job-mapping-dir", "/", "\"/\"", "job_mapping=/"},
};

TEST_F(ServiceOptionsTest, WithoutAnythingAreTheDefaults) {
    const Outcome outcome = parse({});
    Options defaults;
    defaults.socket = os::user_socket();
    defaults.state = os::default_state_directory();
    EXPECT_EQ(outcome.text(), shown(defaults));
    EXPECT_EQ(outcome.options.socket, directory_ + "/XDG_RUNTIME_DIR/salus/socket");
    EXPECT_EQ(outcome.options.state, directory_ + "/XDG_STATE_HOME/salus");
}

TEST_F(ServiceOptionsTest, TheFileAndTheCommandLineHaveTheSameNames) {
    const std::string defaults = parse({}).text();
    for (const Row& row : kRows) {
        const std::string given = parse({"--" + row.name, row.argument}).text();
        EXPECT_NE(given.find(row.shows), std::string::npos) << row.name << ": " << given;
        EXPECT_NE(given, defaults) << row.name;
        EXPECT_EQ(parse({"--" + row.name + "=" + row.argument}).text(), given);
        EXPECT_EQ(parse_file(row.name + " = " + row.toml + "\n").text(), given) << row.name;
    }
}

TEST_F(ServiceOptionsTest, MpsHasThreeModes) {
    EXPECT_EQ(parse({}).options.mps, MpsMode::kAuto);
    EXPECT_EQ(parse({"--mps", "auto"}).options.mps, MpsMode::kAuto);
    EXPECT_EQ(parse({"--mps", "on"}).options.mps, MpsMode::kOn);
    EXPECT_EQ(parse({"--mps", "off"}).options.mps, MpsMode::kOff);
    EXPECT_EQ(parse({"--mps", "maybe"}).error, "--mps: must be auto, on or off; got 'maybe'");
}

TEST_F(ServiceOptionsTest, TheRowsAboveAreAllThereIs) {
    CLI::App program("", "salusd");
    const OptionsParser parser(program);
    std::set<std::string> expected = {"help", "config", "as-before"};
    for (const Row& row : kRows) expected.insert(row.name);
    std::set<std::string> found;
    for (const CLI::Option* option : program.get_options()) found.insert(option->get_lnames().at(0));
    EXPECT_EQ(found, expected);
}

/// The lines `#name = value` of the file that is installed, without the #. Each must follow a line that explains it.
std::map<std::string, std::string> lines_of_example() {
    std::ifstream example(SALUS_SOURCE_DIR "/packaging/salusd.toml");
    std::map<std::string, std::string> lines;
    std::string before;
    for (std::string line; std::getline(example, line); before = line) {
        EXPECT_TRUE(line.empty() || line.starts_with('#')) << "not commented out: " << line;
        if (line.size() < 2 || line.starts_with("# ")) continue;
        EXPECT_TRUE(before.starts_with("# ") && before.ends_with('.')) << "no meaning stands above " << line;
        const std::string name = line.substr(1, line.find(' ') - 1);
        EXPECT_TRUE(lines.emplace(name, line.substr(1)).second) << name << " is there twice";
    }
    return lines;
}

TEST_F(ServiceOptionsTest, TheExampleFileHasEachOptionWithItsDefault) {
    const std::map<std::string, std::string> lines = lines_of_example();
    std::set<std::string> names;
    std::set<std::string> expected;
    for (const auto& [name, line] : lines) names.insert(name);
    for (const Row& row : kRows) expected.insert(row.name);
    EXPECT_EQ(names, expected);

    const std::string defaults = parse({}).text();
    for (const auto& [name, line] : lines) {
        const Outcome outcome = parse_file(line + "\n");
        EXPECT_EQ(outcome.error, "") << line;
        if (name == "user-weight-max") EXPECT_EQ(outcome.options.user_limits.others.weight, 4) << "an example, too";
        else if (name == "user-priority-max") EXPECT_EQ(outcome.options.user_limits.others.priority, 0) << "an example, too";
        else if (name == "min-turn-ms")
            EXPECT_EQ(outcome.options.min_turn, milliseconds(5)) << "an example: no number is default";
        else EXPECT_EQ(outcome.text(), defaults) << line;
    }
}

TEST_F(ServiceOptionsTest, AllTogetherInOneFile) {
    std::string text = "# a comment\n\n";
    std::vector<std::string> arguments;
    for (const Row& row : kRows) {
        text += row.name + " = " + row.toml + "  # why\n";
        arguments.insert(arguments.end(), {"--" + row.name, row.argument});
    }
    EXPECT_EQ(parse_file(text).text(), parse(arguments).text());
}

TEST_F(ServiceOptionsTest, TheCommandLineIsStrongerThanTheFile) {
    const Outcome outcome = parse_file("policy = \"rr\"\nlanes = 3\n", {"--policy", "las"});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.options.policy, "las");
    EXPECT_EQ(outcome.options.lanes, 3u);
}

TEST_F(ServiceOptionsTest, TheUsersOwnFileIsReadUnlessAnotherIsNamed) {
    const fs::path path = default_configuration_file();
    EXPECT_EQ(path, directory_ + "/XDG_CONFIG_HOME/salus/salusd.toml");
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "policy = \"rr\"\n";
    EXPECT_EQ(parse({}).options.policy, "rr");
    EXPECT_EQ(parse_file("lanes = 2\n").options.policy, "fair");
    std::ofstream(path) << "no such = \"thing\"\n";
    EXPECT_NE(parse({}).error, "");
}

TEST_F(ServiceOptionsTest, AFileThatOthersCanWriteIsNotRead) {
    const fs::path path = default_configuration_file();
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "policy = \"rr\"\n";
    fs::permissions(directory_, fs::perms(0755));
    fs::permissions(path, fs::perms(0666));
    EXPECT_EQ(parse({}).error, "--config: " + path.string() + " can be written by other users; chmod go-w helps");
    EXPECT_EQ(parse({"--config", "/dev/null"}).error, "");
    fs::permissions(path, fs::perms(0644));
    EXPECT_EQ(parse({}).options.policy, "rr");
    fs::permissions(path.parent_path(), fs::perms(0777));
    EXPECT_EQ(parse({}).error,
              "--config: " + path.parent_path().string() + " can be written by other users; chmod go-w helps");
}

TEST_F(ServiceOptionsTest, RelativePathsAreAgainstTheWorkingDirectory) {
    const std::string here = fs::current_path().string();
    const Options given = parse({"--socket", "run/socket", "--state", "state"}).options;
    EXPECT_EQ(given.socket, here + "/run/socket");
    EXPECT_EQ(given.state, here + "/state");
    ::setenv("SALUS_SOCKET", "elsewhere/socket", 1);
    ::setenv("SALUS_STATE", "elsewhere", 1);
    EXPECT_EQ(parse({}).options.socket, here + "/elsewhere/socket");
    EXPECT_EQ(parse({}).options.state, here + "/elsewhere");
    EXPECT_EQ(os::find_service().socket, here + "/elsewhere/socket");
    ::unsetenv("SALUS_STATE");
    ::setenv("XDG_STATE_HOME", "relative", 1);
    EXPECT_EQ(os::default_state_directory(), directory_ + "/HOME/.local/state/salus") << "invalid, says the specification";
}

TEST_F(ServiceOptionsTest, DirectoriesFollowTheEnvironment) {
    ::unsetenv("XDG_STATE_HOME");
    ::setenv("XDG_CONFIG_HOME", "", 1);
    EXPECT_EQ(os::default_state_directory(), directory_ + "/HOME/.local/state/salus");
    EXPECT_EQ(default_configuration_file(), directory_ + "/HOME/.config/salus/salusd.toml");
    ::unsetenv("HOME");
    EXPECT_EQ(os::default_state_directory(), "/tmp/salus-" + std::to_string(::getuid()));
    ::setenv("SALUS_STATE", "/somewhere/else", 1);
    EXPECT_EQ(os::default_state_directory(), "/somewhere/else");
}

TEST_F(ServiceOptionsTest, TimeIsSharedByUserWhereThereAreSeveralAndElseWeightsAreLimited) {
    const auto has = [&](const std::vector<std::string>& arguments, const std::string& shows) {
        const std::string text = parse(arguments).text();
        EXPECT_NE((text + " ").find(shows + " "), std::string::npos) << text;
    };
    has({}, "share_by_user=false");
    has({}, "weight_max=-1 priority_max=-1");
    has({"--users", "all"}, "share_by_user=true");
    has({"--users", "all"}, "weight_max=-1 priority_max=-1");
    has({"--users", "all", "--share-by", "job"}, "share_by_user=false");
    has({"--users", "all", "--share-by", "job"}, "weight_max=1 priority_max=0");
    has({"--users", "all", "--share-by", "job", "--user-weight-max", "8"}, "weight_max=8 priority_max=0");
    has({"--share-by", "job"}, "weight_max=-1 priority_max=-1");
}

// ------------------------------------------------------------------------------------------ tables of users and groups

TEST_F(ServiceOptionsTest, TablesLimitSingleUsersAndGroups) {
    const Outcome outcome = parse_file(
        "user-jobs-max = 9\n"
        "[user.1000]  # by number\n"
        "jobs-max = 2  # why\n"
        "memory-max = \"3GiB\"\n"
        "weight-max = 0.5\n"
        "priority-max = -1\n"
        "\n"
        "[user.daemon]\n"
        "jobs-max = 0\n"
        "[group.\"100\"]\n"
        "memory-max = \"\"\n"
        "[group.daemon]\n");
    EXPECT_EQ(outcome.error, "");
    const ConfiguredLimits& limits = outcome.options.user_limits;
    EXPECT_EQ(limits.others, (UserLimits{.jobs = 9}));
    const LimitTables users = {{1000, {2, gibibytes(3), 0.5, -1}}, {1, {.jobs = 0}}};
    EXPECT_EQ(limits.users, users);
    const LimitTables groups = {{100, {.memory = Bytes{}}}};
    EXPECT_EQ(limits.groups, groups);
    EXPECT_EQ(parse_file("[user]\ndaemon.jobs-max = 2\n").options.user_limits.users, (LimitTables{{1, {.jobs = 2}}}));
}

TEST_F(ServiceOptionsTest, AWrongTableIsOneClearLine) {
    const auto expect = [&](const std::string& text, const std::string& error) {
        EXPECT_EQ(parse_file(text).error, file() + ": " + error) << text;
    };
    expect("[user.nobody-of-us]\njobs-max = 1\n", "[user.nobody-of-us]: there is no user 'nobody-of-us'");
    expect("[user.\"ada.l\"]\njobs-max = 1\n", "[user.ada.l]: there is no user 'ada.l'");
    expect("[group.none-of-ours]\njobs-max = 1\n", "[group.none-of-ours]: there is no group 'none-of-ours'");
    expect("[user.root]\njobs-max = 1\n", "[user.root]: root has no limits");
    expect("[user]\njobs-max = 1\n", "[user] must name a user: [user.NAME]");
    expect("[user.1000]\njob-max = 1\n",
           "[user.1000]: there is no limit 'job-max'; there are jobs-max, memory-max, weight-max and priority-max");
    expect("[user.1000]\njobs-max = 1\n[user.1001]\n[user.1000]\njobs-max = 2\n",
           "[user.1000]: jobs-max must have one value");
    expect("[user.1000]\njobs-max = 1\njobs-max = 2\n", "[user.1000]: jobs-max must have one value");
    expect("[user.1000]\njobs-max = [1, 2]\n", "[user.1000]: jobs-max must have one value");
    for (const char* value : {"-1", "1000001"})
        expect("[user.1000]\njobs-max = " + std::string(value) + "\n",
               "[user.1000] jobs-max: must be from 0 to 1000000; got '" + std::string(value) + "'");
    expect("[user.1000]\njobs-max = 1.5\n", "[user.1000] jobs-max: must be a whole number; got '1.5'");
    expect("[user.1000]\nmemory-max = 5\n", "[user.1000] memory-max: '5' has no unit and would be bytes; write 5GiB");
    expect("[user.1000]\nmemory-max = \"much\"\n", "[user.1000] memory-max: 'much' is not a size, such as 16GiB");
    expect("[group.100]\nweight-max = 0\n", "[group.100] weight-max: must be from 0.000001 to 1000000; got '0'");
    expect("[group.100]\nweight-max = heavy\n", "[group.100] weight-max: must be a number; got 'heavy'");
    expect("[group.100]\npriority-max = 9999999\n",
           "[group.100] priority-max: must be from -1000000 to 1000000; got '9999999'");
    expect("[team.red]\njobs-max = 1\n", "there is no option 'team'");
}

// ------------------------------------------------------------------------------------------------------ the last service

/// What the last service left, in the state directory of these tests.
class OptionsOfTheLastService : public ServiceOptionsTest {
protected:
    void left(const std::string& text) const {
        fs::create_directories(state());
        std::ofstream(state() + "/settings") << text;
    }
    std::string state() const { return directory_ + "/state"; }
    Outcome find(std::vector<std::string> arguments) const {
        arguments.insert(arguments.end(), {"--state", state(), "--socket", directory_ + "/socket"});
        const Result<Options> found = find_options(arguments);
        return found ? Outcome{found.value(), ""} : Outcome{{}, found.error()};
    }
    std::vector<std::string> configured(const std::string& text) const {
        std::ofstream(file()) << text;
        return {"--config", file()};
    }
};

TEST_F(OptionsOfTheLastService, AreTakenOverOnRequestOnly) {
    left("given lanes 3\ngiven capacity 2GiB\ngiven config " + file() + "\n");
    configured("mps = \"off\"\nlanes = 7\n");
    EXPECT_EQ(find({}).options.lanes, 0u);
    const Options before = find({"--as-before"}).options;
    EXPECT_EQ(before.lanes, 3u) << "stronger than its file";
    EXPECT_EQ(before.capacity, gibibytes(2));
    EXPECT_EQ(before.mps, MpsMode::kOff) << "the file of the last service";
    EXPECT_EQ(before.given, (GivenOptions{{"config", file()}, {"capacity", "2GiB"}, {"lanes", "3"}})) << "for the next one";
    EXPECT_EQ(find({"--as-before", "--lanes", "1"}).options.lanes, 1u) << "this command line is stronger";
    EXPECT_EQ(find({"--lanes", "1"}).options.given, (GivenOptions{{"lanes", "1"}}));
}

TEST_F(OptionsOfTheLastService, ThatMakeNoSenseAnyMoreAreLeftOut) {
    left("given lanes 3\ngiven colour red\n");
    const Outcome found = find({"--as-before"});
    EXPECT_EQ(found.error, "");
    EXPECT_EQ(found.options.lanes, 0u);
    EXPECT_TRUE(one_line(find({"--as-before", "--lanes", "x"}).error)) << "what is given now is checked";
}

TEST_F(OptionsOfTheLastService, APolicyHoldsUntilAnotherIsConfigured) {
    left("policy srtf instead of fair\n");
    EXPECT_EQ(find({}).options.policy, "srtf");
    EXPECT_EQ(find({}).options.configured_policy, "fair");
    EXPECT_EQ(find({"--policy", "fair"}).options.policy, "fair") << "the command line is stronger";
    EXPECT_EQ(find(configured("policy = \"fair\"\n")).options.policy, "srtf");
    EXPECT_EQ(find(configured("policy = \"las\"\n")).options.policy, "las") << "it was configured later";
    left("policy nonsense instead of fair\n");
    EXPECT_EQ(find({}).options.policy, "fair");
    left("given policy rr\npolicy srtf instead of rr\n");
    EXPECT_EQ(find({"--as-before"}).options.policy, "srtf");
    EXPECT_EQ(find({}).options.policy, "fair") << "it was set instead of another";
}

// ------------------------------------------------------------------------------------------------------------ bad values

TEST_F(ServiceOptionsTest, BadValuesGiveOneLineThatNamesThem) {
    const struct {
        std::string name;
        std::vector<std::string> values;
    } rows[] = {
        {"policy", {"fairest", "", "fair srtf"}},
        {"capacity", {"much", "-1GiB", "0", "12", "1023KiB", "1e300", "nan", "16 apples"}},
        {"lanes", {"-1", "two", "1.5", "99999999999999999999"}},
        {"overlap", {"on", "", "Measure"}},
        {"paging", {"maybe", "yes", "true", "ON"}},
        {"page-gpu", {"maybe", "yes", "true", "ON"}},
        {"device", {"gpu", "Host", "", "host:0", "host:", "host:65", "host:x", "cuda:2"}},
        {"placement", {"packed", "", "Pack"}},
        {"mps", {"maybe", "", "yes", "1", "Auto"}},
        {"min-turn-ms", {"-1", "60001", "nan", "inf", "soon"}},
        {"rehome-after-s", {"-0.5", "86401", "nan", "never"}},
        {"page-idle-s", {"-1", "86400001", "nan", "never"}},
        {"log-level", {"verbose", "3"}},
        {"users", {"some", "everybody"}},
        {"trace-limit", {"0", "-5", "lots", "12", "1KiB"}},
        {"connections-per-user", {"0", "-1", "4097", "many", "1.5"}},
        {"share-by", {"users", "Job"}},
        {"show-others", {"none", "names"}},
        {"user-jobs-max", {"-1", "many", "1.5"}},
        {"user-memory-max", {"0", "12", "lots", "-1GiB"}},
        {"user-weight-max", {"0", "-1", "1e9", "heavy", "nan"}},
        {"metrics", {"", "on", "0.0.0.0:9464", "9464", "127.0.0.1", "[::]:9464", "unix:metrics"}},
        {"job-mapping-dir", {"/nowhere/at/all", "/dev/null"}},
        {"page-dir", {"/nowhere/at/all", "/dev/null"}},
        {"user-priority-max", {"1000001", "-1000001", "1.5", "high"}},
    };
    for (const auto& row : rows) {
        for (const std::string& value : row.values) {
            const std::string on_command_line = parse({"--" + row.name + "=" + value}).error;
            EXPECT_TRUE(one_line(on_command_line)) << "--" << row.name << "=" << value << ": " << on_command_line;
            EXPECT_NE(on_command_line.find(row.name), std::string::npos) << on_command_line;
            std::string in_file = parse_file(row.name + " = \"" + value + "\"\n").error;
            EXPECT_TRUE(one_line(in_file)) << row.name << " = " << value << ": " << in_file;
            EXPECT_NE(in_file.find(row.name), std::string::npos) << in_file;
            EXPECT_TRUE(in_file.starts_with(file() + ": ")) << in_file;
            EXPECT_EQ(on_command_line.find(file()), std::string::npos) << on_command_line;
        }
    }
}

TEST_F(ServiceOptionsTest, NamesThatThereAreNotGiveOneLine) {
    EXPECT_TRUE(one_line(parse({"--polcy", "fair"}).error)) << parse({"--polcy", "fair"}).error;
    EXPECT_TRUE(one_line(parse({"fair"}).error));
    EXPECT_TRUE(one_line(parse({"--policy"}).error));
    for (const char* text : {"polcy = \"fair\"\n", "[service]\npolicy = \"rr\"\n", "policy.name = \"rr\"\n"}) {
        EXPECT_TRUE(one_line(parse_file(text).error)) << text << parse_file(text).text();
    }
    EXPECT_TRUE(one_line(parse({"--config", directory_ + "/none.toml"}).error));
    EXPECT_EQ(parse_file("polcy = \"fair\"\n").error, file() + ": there is no option 'polcy'; did you mean 'policy'?");
    EXPECT_EQ(parse_file("[service]\npolicy = \"rr\"\n").error, file() + ": there is no option 'service'");
}

TEST_F(ServiceOptionsTest, TheFileIsNamedForWhatStandsInItOnly) {
    const std::string error = parse_file("lanes = 2\npolicy = \"rr\"\n", {"--policy", "nope"}).error;
    const std::string no_policy = "--policy: there is no policy 'nope'; there are fifo, srtf, las, fair, rr, priority, pack";
    EXPECT_EQ(error, no_policy);
    EXPECT_EQ(parse_file("policy = \"nope\"\n").error, file() + ": " + no_policy);
    EXPECT_EQ(parse({"--capacity", "12"}).error, "--capacity: '12' has no unit and would be bytes; write 12GiB");
    EXPECT_EQ(parse_file("lanes = two\n").error, file() + ": --lanes must be a whole number; got 'two'");
}

// Not in those of the library that reads them.
TEST_F(ServiceOptionsTest, ErrorsAreInOurOwnWords) {
    const std::pair<std::vector<std::string>, std::string> rows[] = {
        {{"--polcy", "fair"}, "no option '--polcy'; did you mean '--policy'?"},
        {{"--nonsense"}, "no option '--nonsense'; salusd --help lists them"},
        {{"fair"}, "'fair' is one argument too many; salusd --help explains it"},
        {{"--policy"}, "--policy needs a value"},
        {{"--policy", "rr", "--policy", "las"}, "--policy is given twice"},
        {{"--policy", "fare"}, "--policy: there is no policy 'fare'; did you mean 'fair'?"},
        {{"--lanes", "two"}, "--lanes must be a whole number; got 'two'"},
        {{"--lanes", "-1"}, "--lanes: '-1' is out of range"},
        {{"--rehome-after-s", "soon"}, "--rehome-after-s must be a number; got 'soon'"},
        {{"--trace-limit", "12"}, "--trace-limit: '12' has no unit and would be bytes; write 12GiB"},
        {{"--trace-limit", "1KiB"}, "--trace-limit: must be at least 4KiB; got '1KiB'"},
        {{"--config", "/nonexistent"}, "--config: cannot open '/nonexistent': No such file or directory"},
    };
    for (const auto& [arguments, says] : rows) EXPECT_EQ(parse(arguments).error, says);
}

TEST_F(ServiceOptionsTest, TheSocketFollowsTheEnvironmentUnlessItIsGiven) {
    ::setenv("SALUS_SOCKET", "/somewhere/socket", 1);
    EXPECT_EQ(parse({}).options.socket, "/somewhere/socket");
    EXPECT_EQ(parse({"--socket", "/else/socket"}).options.socket, "/else/socket");
    ::setenv("SALUS_SOCKET", "", 1);
    EXPECT_EQ(parse({}).options.socket, os::user_socket());
}

}  // namespace
}  // namespace salus::service
