#include "cli/web_site.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/history_file.h"
#include "cli/job_logs.h"
#include "cli/service_link.h"
#include "cli/usage_table.h"
#include "cli/web_action.h"
#include "history/records_json.h"
#include "os/clock.h"
#include "os/trust.h"
#include "os/user.h"

namespace salus::cli {
namespace {

using nlohmann::json;
using web::News;
using web::Reply;

constexpr std::uint64_t kTraceMax = 256 << 10;
constexpr std::uint64_t kTraceMin = 16 << 10;
constexpr std::uint64_t kLogLines = 100;
constexpr long kLogShown = 32 << 10;

/// One line; bytes that are no text are replaced.
std::string text_of(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

Reply refusal(int status, const std::string& why) { return {status, text_of({{"why", why}})}; }

/// The last lines of a job's output. Nothing: there is none, or it cannot be read.
std::optional<std::string> end_of_log(const std::string& path) {
    std::error_code error;
    if (path.empty() || !std::filesystem::is_regular_file(path, error) || os::why_distrusted(path)) return std::nullopt;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) return std::nullopt;
    skip_to_last_lines(file.get(), kLogLines);
    const long start = std::ftell(file.get());
    std::fseek(file.get(), 0, SEEK_END);
    std::fseek(file.get(), std::max(start, std::ftell(file.get()) - kLogShown), SEEK_SET);
    std::string text(static_cast<std::size_t>(kLogShown), '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

json findings_json() {
    json out = json::array();
    for (const auto& findings : {check_machine(), check_salus()}) {
        for (const Finding& finding : findings)
            out.push_back({{"what", finding.what}, {"ok", finding.ok}, {"detail", finding.detail}});
    }
    return out;
}

}  // namespace

WebSite::WebSite(Viewer viewer, const std::vector<std::string>& forecast)
    : viewer_(viewer), model_(viewer), epoch_(os::now()) {
    if (!forecast.empty()) forecast_.emplace(forecast);
}

/// Looked up once: that may ask a server in the network.
std::string WebSite::name_of(UserId user) {
    const auto [found, is_new] = names_.try_emplace(user);
    if (is_new) found->second = os::name_of_user(static_cast<std::uint32_t>(user));
    return found->second;
}

News WebSite::overview_news() const {
    json overview = model_.overview();
    overview["forecast"] = forecast_.has_value();
    return {"overview", text_of(overview)};
}

std::vector<News> WebSite::look() {
    Result<Status> status = ask_status();
    const Instant at = os::now();
    if (forecast_) forecast_->look(at);
    if (!status) {
        model_.lost(status.error());
        return {overview_news()};
    }
    for (auto* rows : {&status.value().jobs, &status.value().ended}) {
        for (JobStatus& row : *rows) {
            if (row.user != kNoUser) row.user_name = name_of(row.user);
        }
    }
    model_.update(status.value(), at);
    look_at_turns(status.value(), at);
    return {overview_news(), turns_news(at, /*all=*/false)};
}

/// Asks for some more than what was new the last time, and for the most if that was too little.
void WebSite::look_at_turns(const Status& status, Instant at) {
    const std::size_t count = devices_of(status.service).size();
    const bool is_new = std::exchange(service_pid_, status.service.pid) != status.service.pid;
    if (is_new || devices_.size() != count) devices_.assign(count, {{}, kTraceMax});
    for (std::uint32_t i = 0; i < count; ++i) {
        auto& [turns, bytes] = devices_[i];
        turns.look_at(count > 1 ? status_of_device(status, i) : status, at);
        Result<std::string> trace = copy_trace(bytes, i);
        if (trace && !turns.joins(trace.value()) && bytes < kTraceMax) trace = copy_trace(kTraceMax, i);
        if (trace) bytes = std::clamp<std::uint64_t>(2 * turns.read(trace.value(), at), kTraceMin, kTraceMax);
    }
}

/// Of each device; `all`: for a page that has just been opened.
News WebSite::turns_news(Instant at, bool all) {
    json devices = json::array();
    for (OnDevice& device : devices_)
        devices.push_back(all ? device.turns.everything(epoch_, at) : device.turns.news(epoch_, at));
    return {"turns", text_of({{"devices", devices}})};
}

std::vector<News> WebSite::everything() { return {overview_news(), turns_news(os::now(), /*all=*/true)}; }

Reply WebSite::get(std::string_view page) {
    if (page.starts_with("job/")) return job_page(page.substr(4));
    if (page == "usage") return usage();
    if (page == "forecast" && forecast_) return forecast();
    if (page == "health") return {200, text_of(findings_json())};
    return refusal(404, "there is no such page");
}

Reply WebSite::job_page(std::string_view number) const {
    const auto wanted = parse_integer(number);
    auto job =
        wanted && *wanted > 0 && *wanted <= 0xffffffffLL ? model_.job(static_cast<std::uint32_t>(*wanted)) : std::nullopt;
    if (!job) return refusal(404, "there is no such job");
    const JobStatus* row = model_.row_of(static_cast<std::uint32_t>(*wanted));
    if (row && viewer_.may_read(*row)) {
        if (const auto log = end_of_log(row->log)) (*job)["log"] = *log;
    }
    return {200, text_of(*job)};
}

Reply WebSite::usage() {
    try {
        const auto usage = history::usage_from(ask_for_history(wire::AskUsage{0}));
        return {200, usage_json(usage, 0, [this](unsigned uid) { return name_of(UserId{uid}); })};
    } catch (const Failure& failure) {
        return refusal(503, failure.message);
    }
}

/// That takes long with many jobs, so the page asks again for an answer that is not there yet.
Reply WebSite::forecast() {
    forecast_->want(os::now());
    if (!forecast_->last()) return refusal(202, "it is being simulated");
    const Result<std::string>& answer = *forecast_->last();
    return answer ? Reply{200, answer.value()} : refusal(503, answer.error());
}

/// The service decides who may do what; the page only asks.
Reply WebSite::post(std::string_view page, std::string_view body) {
    if (page != "act") return refusal(404, "there is no such page");
    if (viewer_.read_only) return refusal(403, "this page only shows: salus web was started with --read-only");
    const Result<WebAction> action = web_action_in(body);
    if (!action) return refusal(400, action.error());
    const Result<std::string> answer = ask_service(action.value().command);
    if (!answer) return refusal(409, answer.error());
    const JobStatus job = job_status_from(json::parse(answer.value(), nullptr, false));
    return {200, text_of({{"said", job_text(job.name, job.job) + " " + action.value().done}})};
}

}  // namespace salus::cli
