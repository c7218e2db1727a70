// A machine whose /run is a test's own, with users that log in and out. Needs root.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "os/descriptor.h"
#include "tests/processes_fixture.h"

namespace salus::test {

/// An empty /run, for this process and those that it starts; as before afterwards.
class OwnRun {
public:
    OwnRun()
        : before_(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)), directory_(std::filesystem::current_path().string()) {
        works_ = before_ && ::unshare(CLONE_NEWNS) == 0 &&
                 ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 ::mount("none", "/run", "tmpfs", 0, "mode=755") == 0;
    }
    ~OwnRun() {
        if (before_ && ::setns(before_.get(), CLONE_NEWNS) == 0 && ::chdir(directory_.c_str()) != 0) std::perror("chdir");
    }
    OwnRun(const OwnRun&) = delete;
    OwnRun& operator=(const OwnRun&) = delete;
    explicit operator bool() const { return works_; }

private:
    os::Descriptor before_;
    std::string directory_;
    bool works_ = false;
};

inline const Words kEndlessJob = {"--persistent", "1MiB", "--ephemeral", "1MiB",         "--work",   "10",
                                  "--think-ms",   "1",    "--quiet",     "--iterations", "100000000"};

class Places : public ::testing::Test {
protected:
    /// Nobody's, nor of a test that runs at the same time: its sockets in /tmp must not be found by others.
    static inline const unsigned kUser = 100'000 + static_cast<unsigned>(::getpid()) % 100'000;
    static constexpr const char* kMachines = "/run/salus/socket";

    void SetUp() override {
        if (::getuid() != 0) GTEST_SKIP() << "needs root, for a mount namespace and other users";
        own_run_ = std::make_unique<OwnRun>();
        if (!*own_run_) GTEST_SKIP() << "needs the right to mount";
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-places-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        for (const char* name : {"", "/bin", "/lib", "/out"}) {
            std::filesystem::create_directories(directory_ + name);
            ::chmod((directory_ + name).c_str(), 0755);
        }
        for (const std::string binary : {SALUS_BINARY, SALUSD_BINARY, SALUS_JOB_BINARY})
            copy(binary, "/bin/" + std::filesystem::path(binary).filename().string());
        copy(std::filesystem::path(SALUS_JOB_BINARY).parent_path().parent_path() / "lib/libsalus.so.1",
             "/lib/libsalus.so.1");
        make_for(kUser, home());
        std::filesystem::create_directories(home() + "/.config/salus");
        std::ofstream(home() + "/.config/salus/salusd.toml") << "device = \"host\"\ncapacity = \"1GiB\"\n";
        std::filesystem::remove_all(tmp_directory());
    }
    void TearDown() override {
        if (directory_.empty()) return;
        std::string logs;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
            if (HasFailure() && (entry.path().extension() == ".out" || entry.path().filename() == "salusd.log"))
                logs += entry.path().string() + ":\n" + text_of(entry.path().string());
        }
        if (!logs.empty()) std::fprintf(stderr, "%s\n", logs.c_str());
        EXPECT_TRUE(end_services_with(directory_ + "/"));
        std::filesystem::remove_all(tmp_directory());
        std::filesystem::remove_all(directory_);
        own_run_.reset();
    }

    std::string path(const std::string& name) const { return directory_ + name; }
    std::string home() const { return path("/home"); }
    static std::string runtime_directory() { return "/run/user/" + std::to_string(kUser); }
    static std::string tmp_directory() { return "/tmp/salus-" + std::to_string(kUser); }
    std::string program(const std::string& name) const { return path("/bin/" + name); }
    /// Of all users.
    std::vector<pid_t> services() const { return services_with(directory_ + "/"); }

    static void log_in() { make_for(kUser, runtime_directory()); }
    static void log_out() { std::filesystem::remove_all(runtime_directory()); }

    /// With the environment of cron: no variable of a session, or of Salus.
    Process start(const Words& words, unsigned uid = kUser, const Words& variables = {}, const Words& around = {}) {
        const Words clean = {"env", "-i", "PATH=" + path("/bin") + ":/usr/bin:/bin",
                             "HOME=" + (uid == 0 ? path("/root") : home()), "SALUS_PAGE_DIR=/tmp"};
        return Process(around + clean + variables + words, {}, path("/out/" + std::to_string(outputs_++) + ".out"),
                       around.empty() ? uid : 0);
    }
    Process salus(const Words& words, const Words& variables = {}) {
        return start(Words{program("salus")} + words, kUser, variables);
    }
    Process run(const std::string& name, const Words& variables = {}, const Words& around = {}) {
        return start(Words{program("salus"), "run", "--name", name, "--", program("salus-job")} + kEndlessJob, kUser,
                     variables, around);
    }
    /// The machine's service, as its unit starts it.
    Process machines_service(const Words& options = {"--users", "all"}) {
        Process service = start(Words{program("salusd"), "--config", "/dev/null", "--device", "host", "--capacity", "1GiB",
                                      "--socket", kMachines, "--state", path("/machines")} +
                                    options,
                                0);
        EXPECT_TRUE(eventually([&] { return os::connect_to(kMachines).ok(); })) << service.output();
        return service;
    }

    nlohmann::json status(const Words& variables = {}) {
        Process asks = salus({"status", "--json"}, variables);
        return asks.wait() == 0 ? nlohmann::json::parse(asks.output(), nullptr, false) : nlohmann::json::object();
    }
    std::string socket_of(const nlohmann::json& status) {
        return status.contains("service") ? status["service"].value("socket", "") : "";
    }
    static nlohmann::json row(const nlohmann::json& status, const std::string& name) {
        if (!status.contains("jobs")) return nlohmann::json::object();
        for (const nlohmann::json& job : status["jobs"]) {
            if (job.value("name", "") == name) return job;
        }
        return nlohmann::json::object();
    }
    /// By the service that a tool with these variables finds.
    bool goes_on(const std::string& name, const Words& variables = {}) {
        const auto iterations = [&] { return row(status(variables), name).value("iterations", 0); };
        const int from = iterations();
        return eventually([&] { return iterations() > from; });
    }
    /// Nothing it says tells of the opposite; a restart that takes long may have been told of.
    static bool has_always_shared(const Process& job) {
        const std::string said = job.output();
        return said.find("this job continues without sharing") == std::string::npos &&
               said.find("; the job starts without sharing") == std::string::npos;
    }
    static bool says(const Process& process, const std::string& text) {
        return eventually([&] { return process.output().find(text) != std::string::npos; });
    }

private:
    void copy(const std::string& file, const std::string& to) const {
        std::filesystem::copy_file(file, directory_ + to);
        ::chmod((directory_ + to).c_str(), 0755);
    }
    static void make_for(unsigned uid, const std::string& directory) {
        std::filesystem::create_directories(directory);
        ASSERT_EQ(::chown(directory.c_str(), uid, uid), 0);
        ::chmod(directory.c_str(), 0700);
    }

    std::unique_ptr<OwnRun> own_run_;
    std::string directory_;
    int outputs_ = 0;
};

}  // namespace salus::test
