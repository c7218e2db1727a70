// Jobs in namespaces of their own, as containers have them, with the service outside.
#include "tests/places_fixture.h"

namespace salus::test {
namespace {

class Containers : public Places {
protected:
    static Words as_user() {
        const std::string uid = std::to_string(kUser);
        return {"setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"};
    }
    /// A PID and a mount namespace, with /proc of its own: what docker gives.
    static Words container() { return Words{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"} + as_user(); }
    /// And a user namespace in which the user is root: what podman and apptainer give to users.
    static Words rootless_container() {
        return as_user() + Words{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"};
    }
    static bool has_user_namespaces() {
        Process tries(as_user() + Words{"unshare", "--user", "--map-root-user", "true"}, {}, "/dev/null");
        return tries.wait() == 0;
    }
    pid_t pid_of(const std::string& name) { return row(status(), name).value("pid", 0); }
    bool is_attached(const std::string& name) { return row(status(), name).contains("client"); }
    /// By its pid in the namespace of this test.
    static bool is_inside(pid_t pid) {
        const std::string status = text_of("/proc/" + std::to_string(pid) + "/status");
        const std::size_t line = status.find("\nNSpid:");
        const std::string pids =
            line == std::string::npos ? "" : status.substr(line + 8, status.find('\n', line + 1) - line - 8);
        return pids.find('\t') != std::string::npos;
    }
};

TEST_F(Containers, AJobInAnotherPidNamespaceIsAFullClient) {
    Process machines = machines_service();
    Process job = run("inside", {}, container());
    ASSERT_TRUE(goes_on("inside")) << job.output();
    EXPECT_TRUE(is_inside(pid_of("inside"))) << pid_of("inside");
    const auto state = [&] { return row(status(), "inside").value("state", ""); };
    EXPECT_EQ(salus({"pause", "inside"}).wait(), 0);
    EXPECT_TRUE(eventually([&] { return state() == "paused"; }));
    EXPECT_EQ(salus({"resume", "inside"}).wait(), 0);
    EXPECT_TRUE(goes_on("inside"));
    // The next service knows it by its pid, and its memory by the roster.
    const int number = row(status(), "inside").value("job", 0);
    machines.signal(SIGKILL);
    machines.wait();
    std::filesystem::create_directory("/run/salus/up");
    machines = machines_service();
    EXPECT_TRUE(goes_on("inside"));
    EXPECT_EQ(row(status(), "inside").value("job", 0), number);
    EXPECT_EQ(salus({"kill", "inside"}).wait(), 0);
    EXPECT_EQ(job.wait(), 128 + SIGTERM);
    EXPECT_TRUE(has_always_shared(job)) << job.output();
    EXPECT_TRUE(eventually([&] { return row(status(), "inside").empty(); }));
}

// A container's first process has no `salus run`, and dies as every first process does.
TEST_F(Containers, TheEndOfAContainersFirstProcessIsSeen) {
    Process machines = machines_service();
    Process job = start(Words{program("salus-job"), "--name", "first"} + kEndlessJob, kUser, {}, container());
    ASSERT_TRUE(goes_on("first")) << job.output();
    const pid_t pid = pid_of("first");
    EXPECT_TRUE(is_inside(pid));
    EXPECT_EQ(salus({"kill", "first", "--now"}).wait(), 0);
    EXPECT_GT(job.wait(), 0) << "of unshare";
    EXPECT_TRUE(eventually([&] { return row(status(), "first").empty(); }));
}

TEST_F(Containers, AllProcessesOfAJobInsideAreOneJob) {
    Process machines = machines_service();
    std::string both;
    for (const std::string& word : Words{program("salus-job")} + kEndlessJob) both += word + " ";
    Process job = start({program("salus"), "run", "--name", "inside", "--", "sh", "-c", both + "& " + both + "& wait"},
                        kUser, {}, container());
    const auto clients = [&] {
        std::vector<int> pids;
        const nlohmann::json all = status();
        if (!all.contains("jobs")) return pids;
        for (const nlohmann::json& row : all["jobs"]) {
            if (row.contains("client")) pids.push_back(row["pid"]);
        }
        return pids;
    };
    ASSERT_TRUE(eventually([&] { return clients().size() == 2; })) << job.output();
    EXPECT_EQ(status()["jobs"][0]["job"], status()["jobs"][1]["job"]);
    const std::vector<int> pids = clients();
    // One of two is enough for the service to see that the other has ended.
    ::kill(pids[0], SIGKILL);
    EXPECT_TRUE(eventually([&] { return clients() == std::vector<int>{pids[1]}; }));
    EXPECT_EQ(salus({"kill", "inside"}).wait(), 0);
    EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.output();
    EXPECT_TRUE(eventually([&] { return clients().empty(); }));
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists("/proc/" + std::to_string(pids[1])); }));
}

TEST_F(Containers, AServiceInsideSaysThatItCannotSeeJobsOutside) {
    Process service = start({program("salusd"), "--socket", tmp_directory() + "/socket", "--state", home() + "/state"},
                            kUser, {}, container());
    ASSERT_TRUE(eventually([&] { return socket_of(status()) == tmp_directory() + "/socket"; })) << service.output();
    const std::string why =
        "salus: the service runs in another PID namespace and cannot see this process; a service outside "
        "of the containers can; the job ";
    Process job = salus({"run", "--", "echo", "ran"});
    EXPECT_EQ(job.wait(), 0);
    EXPECT_EQ(job.output(), why + "starts without sharing\nran\n");
    Process required = salus({"run", "--require", "--", "echo", "ran"});
    EXPECT_EQ(required.wait(), 125);
    EXPECT_EQ(required.output(), why + "cannot share and is not started\n");
    Process client = start({program("salus-job"), "--iterations", "3", "--quiet"});
    EXPECT_EQ(client.wait(), 0);
    EXPECT_NE(client.output().find("the service runs in another PID namespace"), std::string::npos) << client.output();
    EXPECT_TRUE(row(status(), "salus-job").empty());
}

// Inside, the user is root, and all other users look alike.
TEST_F(Containers, ARootlessContainerSharesWithItsUsersServiceAndSaysWhyNotWithTheMachines) {
    if (!has_user_namespaces()) GTEST_SKIP() << "needs user namespaces for users";
    const Words own = {"SALUS_SOCKET=" + tmp_directory() + "/socket"};
    ASSERT_EQ(salus({"start"}).wait(), 0);
    Process inside = run("inside", own, rootless_container());
    EXPECT_TRUE(goes_on("inside")) << inside.output();
    EXPECT_TRUE(is_inside(pid_of("inside")));
    EXPECT_EQ(salus({"kill", "inside"}).wait(), 0);
    EXPECT_EQ(inside.wait(), 128 + SIGTERM) << inside.output();
    Process machines = machines_service();
    Process job = start({program("salus"), "run", "--", "echo", "ran"}, kUser, {}, rootless_container());
    EXPECT_EQ(job.wait(), 0);
    EXPECT_EQ(job.output(),
              "salus: /run/salus belongs to a user whom this user namespace does not map; the job starts without "
              "sharing\nran\n");
    EXPECT_EQ(services().size(), 2u) << "it has started one of its own";
}

}  // namespace
}  // namespace salus::test
