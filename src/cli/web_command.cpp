// salus web: the state of the service, live, in a browser.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/service_link.h"
#include "cli/web_site.h"
#include "os/file.h"
#include "os/loopback.h"
#include "os/places.h"
#include "os/program.h"
#include "os/trust.h"
#include "web/door.h"
#include "web/server.h"

namespace salus::cli {
namespace {

constexpr std::size_t kTokenBytes = 16;

struct WebArguments {
    std::optional<std::int64_t> port;
    bool no_open = false;
    bool read_only = false;
};

bool has_screen() {
    const auto is_set = [](const char* name) {
        const char* value = std::getenv(name);
        return value && *value;
    };
    return is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
}

/// Everybody on the machine sees the arguments of a program, and so would see the token. The browser gets the path of a file
/// that only this user reads, which leads to the page.
void open_browser(const std::string& address) {
    const std::string opener = os::find_program("xdg-open");
    if (opener.empty() || !has_screen()) return;
    const std::string directory = os::user_directory("XDG_CACHE_HOME", "/.cache");
    if (!os::make_private_directory(directory)) return;
    const std::string file = directory + "/web.html";
    const std::string page = fmt::format(
        "<!doctype html><title>Salus</title><meta http-equiv=refresh content='0; url={}'>\n"
        "<a href='{}'>to the page</a>\n",
        address, address);
    if (!os::replace_file(file, page)) return;
    const os::Descriptor nothing = os::open_file("/dev/null", os::Open::kReadWrite);
    os::Launch launch{{opener, file}, os::environment_with({})};
    launch.input = launch.output = nothing.get();
    launch.leads = os::Launch::Leads::kSession;
    launch.fresh = true;
    if (!os::spawn(launch)) return;  // the address is printed, too
}

bool has_command(const CLI::App& program, const std::string& name) {
    return !program.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; }).empty();
}

int serve(const WebArguments& a, bool has_forecast) {
    if (a.port && (*a.port < 1 || *a.port > 65535))
        throw UsageError{fmt::format("--port must be from 1 to 65535; got '{}'", *a.port)};
    Result<os::Loopback> socket = os::listen_on_loopback(static_cast<int>(a.port.value_or(0)));
    if (!socket) throw Failure{socket.error()};
    const web::Door door(os::random_digits(kTokenBytes), socket.value().port);
    std::vector<std::string> forecast;
    if (has_forecast) forecast = {own_directory() + "/salus", "forecast", "--json"};
    WebSite site({UserId{::getuid()}, a.read_only}, forecast);
    web::Server server(std::move(socket.value().listener), door, site);
    fmt::print("{}\n", door.address());
    std::fflush(stdout);
    if (!a.no_open) open_browser(door.address());
    server.run();
    return 0;
}

}  // namespace

void add_web_command(CLI::App& program, Action& action) {
    auto a = std::make_shared<WebArguments>();
    CLI::App* web = program.add_subcommand("web", "Show the service in a browser, live");
    web->add_option("--port", a->port, "Port on 127.0.0.1; without it, one that is free")->type_name("N");
    web->add_flag("--no-open", a->no_open, "Print the address, and open no browser");
    web->add_flag("--read-only", a->read_only, "Only show: no job can be paused, killed or changed");
    web->callback(
        [a, &program, &action] { action = [a, &program] { return serve(*a, has_command(program, "forecast")); }; });
}

}  // namespace salus::cli
