// salus kernel: a Jupyter kernel that runs under `salus run`, so that notebooks share the device.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/service_link.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::cli {
namespace {

namespace fs = std::filesystem;

struct KernelArguments {
    bool user = false;
    std::string prefix;
    std::string name = "salus";
    std::string display_name;
    std::string python;
};

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

/// Where Jupyter looks for this user's files.
fs::path user_data_directory() {
    if (const char* data = variable("JUPYTER_DATA_DIR")) return data;
    if (const char* data = variable("XDG_DATA_HOME")) return fs::path(data) / "jupyter";
    if (const char* home = variable("HOME")) return fs::path(home) / ".local" / "share" / "jupyter";
    throw Failure{"there is no home directory; --prefix names another place"};
}

/// The kernel's own directory. Jupyter allows few characters in its name, and does not tell upper from lower case.
fs::path directory_of(const KernelArguments& a) {
    if (a.user && !a.prefix.empty()) throw UsageError{"kernel: give either --user or --prefix"};
    const auto allowed = [](unsigned char c) {
        return std::isdigit(c) || std::islower(c) || c == '.' || c == '_' || c == '-';
    };
    if (a.name.empty() || a.name.front() == '.' || !std::ranges::all_of(a.name, allowed))
        throw UsageError{fmt::format("--name must consist of a-z, 0-9, '.', '_' and '-'; got '{}'", a.name)};
    const fs::path data = a.prefix.empty() ? user_data_directory() : fs::absolute(a.prefix) / "share" / "jupyter";
    return data / "kernels" / a.name;
}

bool runs_well(const std::string& python, const std::string& code) {
    const os::Descriptor nothing = os::open_file("/dev/null", os::Open::kReadWrite);
    os::Launch launch{{python, "-c", code}, os::environment_with({})};
    launch.input = launch.output = nothing.get();
    const Result<int> child = os::spawn(launch);
    if (!child) return false;
    auto end = os::wait_for_end(child.value());
    while (!end && errno == EINTR) end = os::wait_for_end(child.value());
    return end && end->well();
}

std::string python_for(const KernelArguments& a) {
    const std::string named = a.python.empty() ? "python3" : a.python;
    const std::string python = named.find('/') == std::string::npos ? os::find_program(named) : fs::absolute(named).string();
    if (python.empty()) throw Failure{fmt::format("there is no {} in PATH; --python names one", named)};
    if (::access(python.c_str(), X_OK) != 0) throw Failure{fmt::format("{}: {}", python, std::strerror(errno))};
    if (!runs_well(python, "")) throw Failure{fmt::format("{} does not run as Python", python)};
    if (!runs_well(python, "import ipykernel"))
        throw Failure{
            fmt::format("{0} has no ipykernel; '{0} -m pip install ipykernel' helps, or --python names another", python)};
    return python;
}

/// With interrupts as messages: a signal to the kernel's process group would reach it twice, once through `salus run`.
nlohmann::ordered_json kernel_spec(const KernelArguments& a, const std::string& python) {
    return {{"argv",
             {own_directory() + "/salus", "run", "--name", "notebook", "--", python, "-m", "ipykernel_launcher", "-f",
              "{connection_file}"}},
            {"display_name", a.display_name.empty() ? "Python 3 (Salus)" : a.display_name},
            {"language", "python"},
            {"interrupt_mode", "message"},
            {"metadata", {{"debugger", true}}}};
}

/// So that nothing else is overwritten or removed.
bool is_ours(const fs::path& file) {
    const Result<std::string> text = os::read_file(file.string());
    const nlohmann::json spec = nlohmann::json::parse(text ? text.value() : "", nullptr, false);
    if (!spec.is_object() || !spec.contains("argv") || !spec["argv"].is_array() || spec["argv"].size() < 2) return false;
    const auto& argv = spec["argv"];
    return argv[0].is_string() && fs::path(argv[0].get<std::string>()).filename() == "salus" && argv[1] == "run";
}

int install(const KernelArguments& a) {
    const fs::path directory = directory_of(a);
    const fs::path file = directory / "kernel.json";
    std::error_code error;
    if (fs::exists(directory, error) && !is_ours(file))
        throw Failure{fmt::format("{} is another kernel; --name names this one otherwise", directory.string())};
    const std::string python = python_for(a);
    fs::create_directories(directory, error);
    if (error) throw Failure{fmt::format("{}: {}", directory.string(), error.message())};
    const auto written = os::replace_file(file.string(), json_text(kernel_spec(a, python)));
    if (!written) throw Failure{written.error()};
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read,
                    error);
    fmt::print("installed the kernel '{}', which runs {}, in {}\n", a.name, python, directory.string());
    return 0;
}

int remove(const KernelArguments& a) {
    const fs::path directory = directory_of(a);
    std::error_code error;
    if (!fs::exists(directory, error)) throw Failure{fmt::format("there is no kernel in {}", directory.string())};
    if (!is_ours(directory / "kernel.json")) throw Failure{fmt::format("{} is not a kernel of Salus", directory.string())};
    fs::remove_all(directory, error);
    if (error) throw Failure{fmt::format("{}: {}", directory.string(), error.message())};
    fmt::print("removed the kernel '{}' from {}\n", a.name, directory.string());
    return 0;
}

void add_place(CLI::App& command, KernelArguments& a) {
    command.add_flag("--user", a.user, "In the user's Jupyter directory (the default)");
    command.add_option("--prefix", a.prefix, "In DIR/share/jupyter instead, such as that of a virtual environment")
        ->type_name("DIR");
    command.add_option("--name", a.name, "Name of the kernel")->capture_default_str();
}

}  // namespace

void add_kernel_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<KernelArguments>();
    CLI::App* kernel = program.add_subcommand("kernel", "Let Jupyter notebooks share the device");
    kernel->require_subcommand(1);
    CLI::App* in = kernel->add_subcommand("install", "Install a Jupyter kernel that runs under salus run");
    add_place(*in, *a);
    in->add_option("--display-name", a->display_name, "As Jupyter shows it (default: Python 3 (Salus))");
    in->add_option("--python", a->python, "The Python that runs it, with ipykernel (default: python3 in PATH)");
    in->callback([a, &action] { action = [a] { return install(*a); }; });
    CLI::App* out = kernel->add_subcommand("remove", "Remove it");
    add_place(*out, *a);
    out->callback([a, &action] { action = [a] { return remove(*a); }; });
}

}  // namespace salus::cli
