#include "wire/announcing.h"

#include "base/command.h"
#include "wire/framing.h"

namespace salus::wire {

Run announcement_of(const std::vector<std::string>& command, std::string_view directory) {
    const CommandKeys keys = keys_of(command, directory);
    Run run;
    run.command_key = keys.command;
    run.program_key = keys.program;
    run.command = Text<148>(text_of_command(command));
    return run;
}

Announced announce(int socket, const Run& run) {
    send(socket, run);  // if this fails, the service may have sent the reason
    const Received answer = receive(socket);
    Announced announced;
    announced.may_come = answer.kind == Received::Kind::kClosed;
    announced.why_not = answer.other_version ? "the service " + answer.why : "the service does not answer";
    if (answer.kind != Received::Kind::kMessage) return announced;
    if (const auto* sorry = std::get_if<Sorry>(&answer.message)) {
        announced.why_not = std::string(sorry->why.view());
        announced.users_mistake = sorry->users_mistake == 1;
        announced.is_final = sorry->users_mistake == 2;
    } else if (const auto* running = std::get_if<Running>(&answer.message)) {
        announced.running = *running;
    }
    return announced;
}

}  // namespace salus::wire
