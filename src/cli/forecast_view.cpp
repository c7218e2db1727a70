#include "cli/forecast_view.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "cli/columns.h"
#include "cli/status_view.h"

namespace salus::cli {
namespace {

using sim::Forecast;
using sim::Outlook;

std::string time_text(const std::optional<Duration>& left) { return left ? format_seconds(left->seconds()) : "-"; }

std::string length_text(const Forecast::Job& job) {
    switch (job.outlook) {
        case Outlook::kStated: return "stated";
        case Outlook::kPast: return "as before";
        case Outlook::kRunsOn:
        case Outlook::kNew: return "not known";
        case Outlook::kAside: return std::string(name_of(job.state));
    }
    return "";
}

/// Why jobs have no end.
std::string remarks_on(const Forecast& forecast) {
    const auto any = [&](const auto& has) { return std::ranges::any_of(forecast.jobs, has); };
    const auto any_is = [&](Outlook outlook) {
        return any([&](const Forecast::Job& job) { return job.outlook == outlook; });
    };
    std::string text;
    if (any_is(Outlook::kRunsOn)) text += "A job whose length is not known is taken to run on.\n";
    if (any_is(Outlook::kNew)) text += "A job that has run only its first iterations is left out: they say little.\n";
    if (any_is(Outlook::kAside)) text += "A job that takes no turns now is left out.\n";
    const bool blocked = any([](const Forecast::Job& job) {
        return has_length(job.outlook) && std::ranges::any_of(job.left, [](const auto& left) { return !left; });
    });
    if (blocked) text += "-: others keep the job from ending.\n";
    return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string format_forecast(const Forecast& forecast) {
    if (forecast.jobs.empty()) return "no jobs\n";
    std::vector<std::string> header = {"JOB", "NAME", "LENGTH"};
    std::vector<Align> aligns = {Align::kRight, Align::kLeft, Align::kLeft};
    std::vector<std::string> means = {"", "mean", ""};
    for (const Forecast::Summary& summary : forecast.policies) {
        header.push_back(summary.policy == forecast.policy ? summary.policy + " (now)" : summary.policy);
        aligns.push_back(Align::kRight);
        means.push_back(time_text(summary.mean));
    }
    std::vector<std::vector<std::string>> rows;
    for (const Forecast::Job& job : forecast.jobs) {
        std::vector<std::string>& row = rows.emplace_back(
            std::vector{std::to_string(job.job), job.name.empty() ? "-" : printable(job.name), length_text(job)});
        for (const auto& left : job.left) row.push_back(time_text(left));
    }
    rows.push_back(means);
    return "Time until the end of each job, under each policy:\n\n" + format_table(header, aligns, rows) +
           remarks_on(forecast);
}

nlohmann::json forecast_json(const Forecast& forecast, std::int64_t at_unix_s) {
    nlohmann::json document = {{"schema_version", 1},
                               {"at_unix_s", at_unix_s},
                               {"policy", forecast.policy},
                               {"policies", nlohmann::json::array()},
                               {"jobs", nlohmann::json::array()}};
    for (const Forecast::Summary& summary : forecast.policies) {
        nlohmann::json& row = document["policies"].emplace_back(nlohmann::json{{"policy", summary.policy}});
        if (summary.mean) row["mean_left_s"] = summary.mean->seconds();
        if (summary.last) row["last_left_s"] = summary.last->seconds();
    }
    for (const Forecast::Job& job : forecast.jobs) {
        nlohmann::json& row = document["jobs"].emplace_back(nlohmann::json{{"job", job.job},
                                                                           {"name", job.name},
                                                                           {"state", name_of(job.state)},
                                                                           {"length", name_of(job.outlook)},
                                                                           {"left_s", nlohmann::json::object()}});
        if (job.user != kNoUser) row["uid"] = static_cast<std::uint32_t>(job.user);
        for (std::size_t i = 0; i < job.left.size(); ++i) {
            if (job.left[i]) row["left_s"][forecast.policies[i].policy] = job.left[i]->seconds();
        }
    }
    return document;
}

}  // namespace salus::cli
