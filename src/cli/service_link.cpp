#include "cli/service_link.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/places.h"
#include "os/poll.h"
#include "os/program.h"
#include "os/socket.h"
#include "os/trust.h"

namespace salus::cli {
namespace {

/// salusd's exit status for wrong options.
constexpr int kOptionsRefused = 2;
/// The service itself rotates its log; this bounds what services write that do not start.
constexpr Bytes kLogMax = mebibytes(4);
/// A service looks once a second whether its socket is still there.
constexpr Duration kMovePatience = seconds(3);
/// As the service sends them, or more.
constexpr std::size_t kTracePacketMax = 64 << 10;

Result<std::string> ask_over(const Result<os::Descriptor>& connection, const wire::Command& command) {
    if (!connection) return Error{connection.error()};
    // If this fails, the service may have sent the reason.
    wire::send(connection.value().get(), wire::message_of(command));
    auto answer = read_answer(connection.value().get());
    if (!answer) return Error{"the service does not answer"};
    return std::move(*answer);
}

Result<Status> status_in(const Result<std::string>& answer) {
    if (!answer) return Error{answer.error()};
    const nlohmann::json document = nlohmann::json::parse(answer.value(), nullptr, false);
    if (!document.is_object()) return Error{"the service's answer is invalid"};
    return status_from(document);
}

}  // namespace

os::Service find_service_on_its_way() {
    const Instant until = os::now() + kMovePatience;
    for (;;) {
        os::Service service = os::find_service();
        if (!service.is_on_its_way || os::now() >= until) return service;
        os::sleep_for(milliseconds(20));
    }
}

Result<std::string> ask_service(const wire::Command& command) {
    return ask_over(find_service_on_its_way().connection, command);
}

Result<std::string> ask_service(const std::string& socket, const wire::Command& command) {
    return ask_over(os::connect_to(socket), command);
}

Result<std::string> copy_trace(std::uint64_t last_bytes, std::uint32_t device) {
    const Result<os::Descriptor> connection = find_service_on_its_way().connection;
    if (!connection) return Error{connection.error()};
    wire::send(connection.value().get(), wire::CopyTrace{last_bytes, device});
    wire::Received received = wire::receive(connection.value().get());
    const auto* sorry = std::get_if<wire::Sorry>(&received.message);
    if (received.kind == wire::Received::Kind::kMessage && sorry) return Error{std::string(sorry->why.view())};
    const auto* answer = std::get_if<wire::Answer>(&received.message);
    if (received.kind != wire::Received::Kind::kMessage || !answer || answer->ok == 0 || !received.descriptors[0])
        return Error{"the service does not send its trace"};
    const int trace = received.descriptors[0].get();
    std::string text;
    std::vector<std::byte> packet(kTracePacketMax);
    for (;;) {
        os::readable_within(trace, os::kForEver);
        const os::Arrival arrival = os::receive_packet(trace, packet, {});
        if (arrival.kind == os::Arrival::Kind::kClosed) return text;
        text.append(reinterpret_cast<const char*>(packet.data()), arrival.size);
    }
}

std::optional<Result<std::string>> read_answer(int connection) {
    wire::Received received = wire::receive(connection);
    if (received.kind == wire::Received::Kind::kGarbage) return Error{"the service " + received.why};
    if (received.kind != wire::Received::Kind::kMessage) return std::nullopt;
    if (const auto* sorry = std::get_if<wire::Sorry>(&received.message)) return Error{std::string(sorry->why.view())};
    const auto* answer = std::get_if<wire::Answer>(&received.message);
    if (!answer || !received.descriptors[0] || answer->size > (std::uint64_t{1} << 30))
        return Error{"the service gave no answer"};
    std::string text(answer->size, '\0');
    if (::pread(received.descriptors[0].get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return Error{"the service's answer cannot be read"};
    }
    if (answer->ok == 0) return Error{text};
    return text;
}

Result<Status> ask_status() { return status_in(ask_service(wire::AskStatus{})); }
Result<Status> ask_status(const std::string& socket) { return status_in(ask_service(socket, wire::AskStatus{})); }

std::string own_directory() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::optional<StartFailure> start_service(const std::string& socket, const std::vector<std::string>& options) {
    if (const Result<bool> claimed = os::claim_state_directory(); !claimed) return StartFailure{claimed.error()};
    const std::string state = os::default_state_directory();
    if (const Result<bool> made = os::make_private_directory(state); !made) return StartFailure{made.error()};
    const std::string log = state + "/salusd.log";
    const os::Descriptor output = os::open_log(log, kLogMax.count);
    if (!output) return StartFailure{log + ": " + std::strerror(errno)};

    const os::Descriptor nothing = os::open_file("/dev/null", os::Open::kRead);
    os::Launch launch{{own_directory() + "/salusd", "--socket", socket, "--state", state}, os::environment_with({})};
    if (options.empty()) launch.command.push_back("--as-before");
    launch.command.insert(launch.command.end(), options.begin(), options.end());
    launch.input = nothing.get();
    launch.output = output.get();
    launch.leads = os::Launch::Leads::kSession;  // it outlives the terminal
    const Result<int> child = os::spawn(launch);
    if (!child) return StartFailure{child.error()};
    const auto answers = [&] { return os::find_service_at(socket).connection.ok(); };
    for (int i = 0; i < 2000; ++i) {  // 20 s: starting on a GPU takes long
        if (answers()) return std::nullopt;
        if (const auto end = os::reap(child.value())) {
            // Two services may have been started at once; the other one has the lock.
            if (answers()) return std::nullopt;
            std::ifstream said(log);
            const bool refused = !end->by_signal && end->number == kOptionsRefused;
            return StartFailure{"the service did not start: " + last_line_of(said), refused};
        }
        os::sleep_for(milliseconds(10));
    }
    return StartFailure{"the service did not start within 20 s; see " + log};
}

}  // namespace salus::cli
