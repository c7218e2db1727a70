#include "cli/web_action.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "wire/assignments.h"

namespace salus::cli {
namespace {

using nlohmann::json;

}  // namespace

Result<WebAction> web_action_in(std::string_view body) {
    const json wanted = json::parse(body, nullptr, false);
    if (!wanted.is_object()) return Error{"an action is a JSON object"};
    const auto number = wanted.find("job");
    if (number == wanted.end() || !number->is_number_unsigned() || number->get<std::uint64_t>() == 0 ||
        number->get<std::uint64_t>() > 0xffffffffu)
        return Error{"an action names a job by its number"};
    const auto name = wanted.find("action");
    const std::string action = name != wanted.end() && name->is_string() ? name->get<std::string>() : "";
    const wire::JobReference job{number->get<std::uint32_t>(), {}};
    if (action == "pause") return WebAction{wire::PauseJob{job}, "pauses after its current iteration"};
    if (action == "resume") return WebAction{wire::ResumeJob{job}, "is resumed"};
    if (action == "kill") return WebAction{wire::KillJob{job, 0}, "is told to end"};
    if (action == "kill now") return WebAction{wire::KillJob{job, 1}, "is killed"};
    if (action != "priority") return Error{"an action is pause, resume, kill, kill now or priority"};
    const auto value = wanted.find("value");
    const std::string word = "priority=" + (value == wanted.end() ? "" : value->dump());
    const Result<wire::Assignments> read = wire::parse_assignments({word});
    if (!read) return Error{read.error()};
    return WebAction{wire::set_job(job, read.value()), fmt::format("has {} now", word)};
}

}  // namespace salus::cli
