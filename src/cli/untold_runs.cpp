#include "cli/untold_runs.h"

#include <unistd.h>

#include "history/untold.h"
#include "os/machine.h"
#include "os/process.h"
#include "wire/framing.h"

namespace salus::cli {
namespace {

constexpr std::size_t kToldAtOnce = 50;

std::string name_of(os::Whose whose, const std::string& socket) {
    return whose == os::Whose::kOwn ? std::string(history::kUsersOwn) : socket;
}

/// That of no other run, on no other machine.
std::string name_of_file(std::size_t number) {
    const std::uint64_t started = os::start_time_of(::getpid()).value_or(0);
    return os::this_machine().host + "-" + std::to_string(::getpid()) + "-" + std::to_string(started) + "-" +
           std::to_string(number);
}

wire::UntoldEnd message_of(const history::Run& run) {
    wire::UntoldEnd end;
    end.status = run.status;
    end.took_ns = static_cast<std::uint64_t>(run.took.ns);
    end.ended_unix_s = run.ended_at_s;
    end.command_key = run.keys.command;
    end.program_key = run.keys.program;
    end.command = wire::Text<148>(run.command);
    return end;
}

}  // namespace

Result<bool> leave_untold(os::Whose whose, const std::string& socket, const history::Run& run) {
    if (const Result<bool> claimed = os::claim_state_directory(); !claimed) return claimed;
    return history::keep_untold(os::default_state_directory(), name_of_file(0), {name_of(whose, socket), run});
}

void tell_untold(os::Whose whose, const std::string& socket) {
    const std::string state = os::default_state_directory(), name = name_of(whose, socket);
    std::size_t count = 0;  // the rest next time: a service reads only so much at once
    const auto left =
        history::take_untold(state, [&](const std::string& of) { return of == name && count++ < kToldAtOnce; });
    if (left.empty()) return;
    const Result<os::Descriptor> connection = os::find_service_at(socket).connection;
    for (std::size_t i = 0; i < left.size(); ++i) {
        const bool told = connection && wire::send(connection.value().get(), message_of(left[i].run));
        if (!told) (void)history::keep_untold(state, name_of_file(i), left[i]).ok();
    }
}

}  // namespace salus::cli
