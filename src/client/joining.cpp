#include "client/joining.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/python_command.h"
#include "base/text.h"
#include "device/visible_gpus.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/patience.h"
#include "os/poll.h"
#include "wire/announcing.h"
#include "wire/framing.h"

namespace salus::client {
namespace {

constexpr Duration kTryAgain = milliseconds(20);

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? value : "";
}

std::vector<std::string> own_command() {
    const Result<std::string> text = os::read_file("/proc/self/cmdline");
    std::vector<std::string> words;
    if (text) {
        for (const std::string_view word : split(text.value(), '\0')) words.emplace_back(word);
    }
    while (!words.empty() && words.back().empty()) words.pop_back();  // the last one ends with a NUL, too
    if (words.empty()) words.emplace_back("job");
    return words;
}

/// Other commands take a job's name as one word, and treat a number as the job's number.
std::string as_name(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; }, '_');
    return text.empty() || parse_integer(text) ? "job-" + text : text;
}

}  // namespace

wire::Run describe_process(std::string name, std::string key) {
    const std::vector<std::string> command = own_command();
    if (name.empty()) name = variable("SALUS_NAME");
    if (key.empty()) key = variable("SALUS_KEY");
    std::error_code error;
    wire::Run run = wire::announcement_of(command, std::filesystem::current_path(error).string());
    if (!key.empty()) {
        const wire::Run named = wire::announcement_of({key}, "");
        run.command_key = named.command_key;
        run.program_key = named.program_key;
        run.command = named.command;
    }
    run.joins = 1;
    run.name = wire::Text<64>(as_name(name.empty() ? name_of_command(command) : name));
    run.weight = parse_number(variable("SALUS_WEIGHT")).value_or(1);
    run.priority = static_cast<std::int32_t>(parse_number(variable("SALUS_PRIORITY")).value_or(0));
    return run;
}

Joining::Joining(wire::Run run, os::ServiceFinder finder) : run_(run), finder_(std::move(finder)) {}

Result<bool> Joining::announce() {
    connection_.reset();
    is_final_ = false;
    os::Service service = finder_.find();
    may_come_ = service.may_come;
    if (!service.connection) return Error{service.connection.error()};
    if (const char* const assigned = std::getenv("CUDA_VISIBLE_DEVICES")) {
        wire::Wishes wishes;
        wishes.by = wire::Wishes::kEnvironment;
        wishes.devices = wire::Text<448>(device::gpus_by_uuid(assigned));
        wire::send(service.connection.value().get(), wishes);
    }
    const wire::Announced announced = wire::announce(service.connection.value().get(), run_);
    may_come_ = announced.may_come;
    is_final_ = announced.is_final || announced.users_mistake;
    if (!announced.running) return Error{announced.why_not};
    running_ = *announced.running;
    run_.job = running_.job;
    waits_ = running_.waits != 0;
    connection_ = std::move(service.connection).value();
    return true;
}

Result<bool> Joining::wait(Duration at_most, const sigset_t* signals) {
    const Instant until = os::now() + at_most;
    while (waits_) {
        if (refusal_) return Error{*refusal_};
        const Duration left = until - os::now();
        if (left <= Duration{}) return false;
        if (!connection_) {
            os::readable_of({}, std::min(left, kTryAgain), signals);
            announce_again();
        } else if (const int socket = connection_.get(); os::readable_of({&socket, 1}, left, signals) == 0) {
            return false;
        } else if (!hear()) {
            connection_.reset();
            lost_at_ = os::now();
            run_.waited = 1;
        }
    }
    return true;
}

/// To the next service. If none comes, the process starts: its client says how it goes on.
void Joining::announce_again() {
    const Result<bool> announced = announce();
    if (announced) return;
    if (is_final_) refused(announced.error());
    else if (os::now() - lost_at_ >= os::orphan_wait()) waits_ = false;
}

void Joining::refused(std::string why) {
    refusal_ = std::move(why);
    connection_.reset();
}

/// False: the service is gone.
bool Joining::hear() {
    const wire::Received received = wire::receive(connection_.get());
    if (received.kind != wire::Received::Kind::kMessage) return false;
    if (const auto* start = std::get_if<wire::Start>(&received.message)) {
        waits_ = false;
        if (!start->gpu.view().empty()) running_.gpu = start->gpu;
        running_.mps = start->mps;
    }
    const auto* sorry = std::get_if<wire::Sorry>(&received.message);
    if (sorry && sorry->users_mistake != 0) refused(std::string(sorry->why.view()));
    if (std::holds_alternative<wire::Waits>(received.message) && !std::exchange(told_, true)) {
        const std::string name(run_.name.view());
        std::fprintf(stderr, "salus: %s waits to start; salus ps says for what\n", name.c_str());
    }
    return true;
}

void Joining::announce_beside_client() {
    run_ = announcement();
    static_cast<void>(announce());  // if it fails, there is nobody to hear of the end
    waits_ = false;
}

wire::Run Joining::announcement() const {
    wire::Run run = run_;
    run.runs = 1;
    run.waited = 0;
    return run;
}

}  // namespace salus::client
