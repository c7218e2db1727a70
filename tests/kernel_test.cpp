// salus kernel: the files that Jupyter finds, and that a kernel starts as they say. Without Jupyter itself.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/processes_fixture.h"

namespace salus::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Kernel : public ::testing::Test {
protected:
    Kernel() : machine_({"--capacity", "1GiB", "--device", "host"}, /*start=*/false) {
        // One that has whatever it is asked for.
        python_ = machine_.path("python3");
        std::ofstream(python_) << "#!/bin/sh\nexit 0\n";
        ::chmod(python_.c_str(), 0755);
        machine_.also["HOME"] = machine_.path("home");
        machine_.also["XDG_DATA_HOME"] = machine_.also["JUPYTER_DATA_DIR"] = "";
    }
    /// Its exit status; what it says is one line, with this in it.
    int says(const Words& arguments, const std::string& text) {
        Process command = machine_.salus(Words{"kernel"} + arguments);
        const int status = command.wait();
        const std::string output = command.output();
        EXPECT_NE(output.find(text), std::string::npos) << output;
        EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
        return status;
    }
    static json spec_in(const std::string& directory) {
        return json::parse(text_of(directory + "/kernel.json"), nullptr, false);
    }

    Machine machine_;
    std::string python_;
};

TEST_F(Kernel, IsInstalledWhereJupyterLooksAndRemovedAgain) {
    const std::string kernels = machine_.path("home/.local/share/jupyter/kernels");
    EXPECT_EQ(says({"install", "--python", python_}, "installed the kernel 'salus'"), 0);
    const json spec = spec_in(kernels + "/salus");
    EXPECT_EQ(spec["argv"], json({SALUS_BINARY, "run", "--name", "notebook", "--", python_, "-m", "ipykernel_launcher", "-f",
                                  "{connection_file}"}));
    EXPECT_EQ(spec["display_name"], "Python 3 (Salus)");
    EXPECT_EQ(spec["language"], "python");
    EXPECT_EQ(spec["interrupt_mode"], "message");
    EXPECT_EQ(says({"install", "--python", python_, "--display-name", "Mine"}, "installed"), 0) << "again";
    EXPECT_EQ(spec_in(kernels + "/salus")["display_name"], "Mine");
    EXPECT_EQ(says({"remove"}, "removed the kernel 'salus'"), 0);
    EXPECT_TRUE(fs::is_empty(kernels));
    EXPECT_EQ(says({"remove"}, "there is no kernel in"), 1);

    const std::string prefix = machine_.path("venv");
    EXPECT_EQ(says({"install", "--python", python_, "--prefix", prefix, "--name", "torch"}, "installed the kernel 'torch'"),
              0);
    EXPECT_TRUE(spec_in(prefix + "/share/jupyter/kernels/torch").is_object());
    machine_.also["JUPYTER_DATA_DIR"] = machine_.path("data");
    EXPECT_EQ(says({"install", "--user", "--python", python_}, machine_.path("data/kernels/salus")), 0);
}

TEST_F(Kernel, AnotherKernelIsLeftAlone) {
    const std::string other = machine_.path("home/.local/share/jupyter/kernels/python3");
    fs::create_directories(other);
    std::ofstream(other + "/kernel.json") << R"({"argv": ["python3", "-m", "ipykernel_launcher"]})";
    const std::string before = text_of(other + "/kernel.json");
    EXPECT_EQ(says({"install", "--python", python_, "--name", "python3"}, "is another kernel"), 1);
    EXPECT_EQ(says({"remove", "--name", "python3"}, "is not a kernel of Salus"), 1);
    EXPECT_EQ(text_of(other + "/kernel.json"), before);
}

TEST_F(Kernel, WhatCannotBeIsOneLine) {
    EXPECT_EQ(says({"install", "--name", "../evil", "--python", python_}, "--name must consist of"), 2);
    EXPECT_EQ(says({"install", "--user", "--prefix", "/x", "--python", python_}, "either --user or --prefix"), 2);
    EXPECT_EQ(says({"install", "--python", "no-such-python"}, "there is no no-such-python in PATH"), 1);
    EXPECT_EQ(says({"install", "--python", "/no/python"}, "/no/python: No such file or directory"), 1);
    EXPECT_EQ(says({"install", "--python", "/bin/false"}, "/bin/false does not run as Python"), 1);
    const std::string without = machine_.path("without-ipykernel");
    std::ofstream(without) << "#!/bin/sh\ncase $2 in *ipykernel*) exit 1 ;; esac\n";
    fs::permissions(without, fs::perms::owner_all);
    EXPECT_EQ(says({"install", "--python", without}, without + " has no ipykernel"), 1);
    EXPECT_FALSE(fs::exists(machine_.path("home/.local")));
}

bool listens(int port) {
    const os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST_F(Kernel, StartsAsAJobAndListens) {
    const std::string python = SALUS_SOURCE_DIR "/.venv/bin/python";
    if (kSanitized) GTEST_SKIP() << "a Python without a sanitizer cannot load a library that has one";
    if (std::system((python + " -c 'import ipykernel' 2>/dev/null").c_str()) != 0)
        GTEST_SKIP() << "SKIPPED: there is no ipykernel in .venv";
    machine_.start_service();
    const std::string prefix = machine_.path("prefix");
    ASSERT_EQ(says({"install", "--python", python, "--prefix", prefix}, "installed"), 0);
    const std::string connection = machine_.path("connection.json");
    Words command;
    const json spec = spec_in(prefix + "/share/jupyter/kernels/salus");
    for (const json& word : spec["argv"])
        command.push_back(word == "{connection_file}" ? connection : word.get<std::string>());
    fs::create_directories(machine_.path("home"));
    Process kernel(command, machine_.environment(), machine_.path("kernel.out"));
    EXPECT_TRUE(eventually([&] {
        const json ports = json::parse(text_of(connection), nullptr, false);
        return ports.is_object() && listens(ports.value("shell_port", 0));
    })) << kernel.output();
    EXPECT_EQ(machine_.row("notebook").value("pid", 0) > 0, true) << machine_.status();
    EXPECT_EQ(machine_.salus({"kill", "notebook"}).wait(), 0);
    EXPECT_NE(kernel.wait(), -1) << "it ends";
}

}  // namespace
}  // namespace salus::test
