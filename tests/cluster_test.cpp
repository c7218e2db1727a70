// What a cluster's engine is told, with real processes: profiles of several nodes, lines for Slurm, and what the doctor
// sees. The engines themselves are in tests/cluster.
#include <filesystem>
#include <fstream>

#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

/// One node of a cluster: a service for all users, and a command that has run.
class Node : public Machine {
public:
    explicit Node(const std::string& capacity, const std::vector<std::string>& more = {"--device", "host"})
        : Machine([&] {
              std::vector<std::string> options = {"--capacity", capacity, "--users", "all"};
              options.insert(options.end(), more.begin(), more.end());
              return options;
          }()) {}

    void has_run(const std::string& persistent) {
        Process job =
            salus({"run", "--", SALUS_JOB_BINARY, "--iterations", "20", "--persistent", persistent, "--ephemeral", "8MiB"});
        ASSERT_EQ(job.wait(), 0) << job.output();
    }
    std::string says(const std::vector<std::string>& words, int status = 0) {
        Process command = salus(words);
        EXPECT_EQ(command.wait(), status) << command.output();
        return command.output();
    }
    std::string exported(const std::string& lane) {
        const std::string file = path("profiles");
        EXPECT_EQ(says({"profiles", "export", "--lane", lane, "--output", file}), "");
        return file;
    }
};

std::vector<nlohmann::json> json_lines(const std::string& text) {
    std::vector<nlohmann::json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line, nullptr, false));
    return lines;
}

TEST(ProfilesOfNodes, AreMergedFromTheirHistories) {
    Node first("1GiB"), second("2GiB");
    first.has_run("4MiB");
    first.has_run("5MiB");  // other arguments are another command
    second.has_run("5MiB");
    const std::string a = first.exported("256MiB"), b = second.exported("300MiB");
    const std::vector<nlohmann::json> lines = json_lines(first.says({"profiles", "merge", a, b}));
    ASSERT_EQ(lines.size(), 3u) << text_of(a) << text_of(b);
    EXPECT_EQ(lines[0]["capacity"], 1 << 30);
    EXPECT_EQ(lines[0]["lane"], 256 << 20);
    for (std::size_t i = 1; i < 3; ++i) {
        EXPECT_EQ(lines[i]["name"], "salus-job");
        EXPECT_GE(lines[i]["persistent"], 4 << 20);
        EXPECT_GE(lines[i]["ephemeral"], 8 << 20);
        EXPECT_EQ(lines[i]["iterations"], 20);
        EXPECT_GT(lines[i]["iteration_s"], 0.0);
    }
    const std::string merged = first.path("merged");
    EXPECT_EQ(first.says({"profiles", "merge", a, b, "-o", merged}), "");
    EXPECT_EQ(first.says({"profiles", "merge", merged, a}), text_of(merged)) << "it knew these already";
}

TEST(ProfilesOfNodes, MistakesAreOneLine) {
    Node node("1GiB");
    std::ofstream(node.path("odd")) << "7\n";
    EXPECT_EQ(node.says({"profiles", "merge", node.path("odd")}, 1),
              "salus: " + node.path("odd") + ": line 1 is not one that `salus profiles export` prints\n");
    EXPECT_EQ(node.says({"profiles", "export", "--lane", "2GiB"}, 2),
              "salus: --lane must be from 1MiB to 1023 MiB; got '2GiB'\n");
}

TEST(SlurmConfig, NamesEachGpuOfTheNode) {
    Node node("1GiB", {"--device", "host:2"});
    const std::string config = node.says({"slurm", "config", "--lane", "256MiB"});
    for (const char* file : {"/dev/null", "/dev/zero"}) {
        EXPECT_NE(config.find(std::string("Name=gpu File=") + file), std::string::npos) << config;
        EXPECT_NE(config.find(std::string("Name=shard Count=768 File=") + file), std::string::npos) << config;
    }
    EXPECT_NE(config.find("Gres=gpu:2,shard:1536"), std::string::npos) << config;
}

class ClusterDoctor : public ::testing::Test {
protected:
    ClusterDoctor() {
        std::filesystem::create_directories(node_.path("etc"));
        std::filesystem::create_directories(node_.path("sbin"));
        write("sbin/slurmd", "");
        ::chmod(node_.path("sbin/slurmd").c_str(), 0755);
        node_.also["SLURM_CONF"] = node_.path("etc/slurm.conf");
        node_.also["PATH"] = node_.path("sbin") + ":" + std::getenv("PATH");
    }
    void write(const std::string& name, const std::string& text) { std::ofstream(node_.path(name)) << text; }
    /// False, and the detail has the text.
    void finds_wrong(const std::string& what, const std::string& text) {
        const nlohmann::json finding = found(what);
        EXPECT_EQ(finding["ok"], false) << finding;
        EXPECT_NE(finding.value("detail", "").find(text), std::string::npos) << finding;
    }
    nlohmann::json found(const std::string& what) {
        Process doctor = node_.salus({"doctor", "--cluster", "--json"});
        doctor.wait();
        for (const nlohmann::json& finding : nlohmann::json::parse(doctor.output(), nullptr, false)) {
            if (finding.value("what", "") == what) return finding;
        }
        return nlohmann::json::object();
    }

    Node node_{"1GiB"};
};

TEST_F(ClusterDoctor, SaysWhatIsMissing) {
    finds_wrong("Slurm plugin", "plugstack.conf does not name spank_salus.so");
    finds_wrong("Slurm shards", "gres.conf hands out no shards");
    EXPECT_EQ(found("Slurm profiles")["ok"], true) << "they are no must";
    EXPECT_EQ(found("cluster service")["ok"], true);
}

TEST_F(ClusterDoctor, SaysWhatIsWrong) {
    write("etc/plugstack.conf",
          "# optional /else/spank_salus.so\noptional /nonexistent/spank_salus.so salus=/usr/bin/salus\n");
    finds_wrong("Slurm plugin", "/nonexistent/spank_salus.so is not there");
    write("etc/gres.conf", "NodeName=a Name=gpu File=/dev/null\nNodeName=a Name=shard Count=1024 File=/dev/null\n");
    finds_wrong("Slurm shards", "1.0 GiB on a GPU, and the service has 1.0 GiB: no lane is left");
    write("etc/salus_profiles.jsonl", "no\n");
    finds_wrong("Slurm profiles", "line 1 is not one that");
}

TEST_F(ClusterDoctor, FindsWhatIsThere) {
    write("etc/spank_salus.so", "");
    write("etc/plugstack.conf", "optional " + node_.path("etc/spank_salus.so") + "\n");
    write("etc/gres.conf", "NodeName=a Name=shard Count=768 File=/dev/null # of 1024\n");
    write("etc/salus_profiles.jsonl", "");
    EXPECT_EQ(found("Slurm plugin")["ok"], true);
    EXPECT_EQ(found("Slurm shards")["detail"], "768 MiB of 1.0 GiB on a GPU; the rest is the lane");
    EXPECT_EQ(found("Slurm profiles")["ok"], true);
}

TEST(ClusterDoctorOfOneUser, SaysThatOthersCannotUseTheService) {
    Machine machine({"--capacity", "1GiB", "--device", "host"});
    Process doctor = machine.salus({"doctor", "--cluster"});
    EXPECT_EQ(doctor.wait(), 1);
    EXPECT_NE(doctor.output().find("is not for all users, as that of salusd.service is"), std::string::npos)
        << doctor.output();
}

}  // namespace
}  // namespace salus::test
