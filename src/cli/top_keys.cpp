#include "cli/top_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "wire/assignments.h"

namespace salus::cli {
namespace {

constexpr std::size_t kFilterMost = 40;

const JobStatus* chosen_job(const Status& status, const TopOptions& options) {
    const auto found = std::ranges::find(status.jobs, options.chosen, &JobStatus::job);
    return options.chosen == 0 || found == status.jobs.end() ? nullptr : &*found;
}

/// Moves the choice by so many jobs; if there is none, to the first one on the screen.
void choose(const Status& status, const Rates& rates, TopOptions& options, int by) {
    const std::vector<JobStatus> rows = rows_of(status, rates, options);
    if (rows.empty()) return;
    const auto top = static_cast<std::size_t>(std::clamp(options.first, 0, static_cast<int>(rows.size()) - 1));
    std::vector<std::uint32_t> jobs;  // a job may have several rows
    for (const JobStatus& row : rows) {
        if (std::ranges::find(jobs, row.job) == jobs.end()) jobs.push_back(row.job);
    }
    const auto now = std::ranges::find(jobs, options.chosen);
    if (options.chosen == 0 || now == jobs.end()) {
        options.chosen = rows[top].job;
        return;
    }
    const auto at = static_cast<int>(now - jobs.begin()) + by;
    options.chosen = jobs[static_cast<std::size_t>(std::clamp(at, 0, static_cast<int>(jobs.size()) - 1))];
}

Pressed pause_or_resume(const JobStatus& job) {
    const wire::JobReference whom{job.job, {}};
    if (job.state == JobState::kPaused || job.state == JobState::kSuspended)
        return {.command = wire::ResumeJob{whom}, .done = fmt::format("job {} is resumed", job.job)};
    return {.command = wire::PauseJob{whom}, .done = fmt::format("job {} pauses after its current iteration", job.job)};
}

Pressed change_priority(const JobStatus& job, int by, TopOptions& options) {
    if (!job.activity) {
        options.said = fmt::format("job {} has not attached yet", job.job);
        return {};
    }
    wire::Assignments wanted;
    wanted.priority = std::clamp(job.activity->priority + by, -wire::kPriorityMax, wire::kPriorityMax);
    return {.command = wire::set_job({job.job, {}}, wanted),
            .done = fmt::format("job {} has priority {}", job.job, *wanted.priority)};
}

void type_filter(int key, TopOptions& options) {
    if (key == kKeyEscape) options.filter.clear();
    if (key == kKeyEscape || key == kKeyEnter || key == '\n') options.mode = TopMode::kJobs;
    const bool erases = key == kKeyBackspace || key == '\b';
    if (erases && !options.filter.empty()) options.filter.pop_back();
    if (key >= ' ' && key < kKeyBackspace && options.filter.size() < kFilterMost) options.filter += static_cast<char>(key);
}

Pressed act(int key, const JobStatus* job, TopOptions& options) {
    if (!job) {
        options.said = "choose a job first: up, down";
        return {};
    }
    switch (key) {
        case 'p': return pause_or_resume(*job);
        case '+':
        case '=': return change_priority(*job, 1, options);
        case '-': return change_priority(*job, -1, options);
        default: options.mode = TopMode::kConfirmKill; return {};
    }
}

std::optional<SortKey> sort_key(int key) {
    switch (key) {
        case 's': return SortKey::kShare;
        case 'i': return SortKey::kIterations;
        case 'w': return SortKey::kWaiting;
        case 'l': return SortKey::kLeft;
        case 'm': return SortKey::kMemory;
        case 'j': return SortKey::kJob;
        default: return std::nullopt;
    }
}

}  // namespace

Pressed press(int key, const Status& status, const Rates& rates, TopOptions& options) {
    options.said.clear();
    const TopMode mode = options.mode;
    if (mode == TopMode::kFilter) return type_filter(key, options), Pressed{};
    options.mode = TopMode::kJobs;
    if (mode == TopMode::kHelp) return {.quits = key == 'q' || key == 'Q'};
    if (mode == TopMode::kConfirmKill) {
        if (key != 'y' && key != 'Y') return {};
        return {.command = wire::KillJob{{options.chosen, {}}, 0},
                .done = fmt::format("job {} is told to end", options.chosen)};
    }
    if (const auto sort = sort_key(key)) {
        options.sort = *sort;
        options.first = 0;
        return {};
    }
    const int page = std::max(options.height / 2, 1);
    switch (key) {
        case 'q':
        case 'Q': return {.quits = true};
        case 'h':
        case '?': options.mode = TopMode::kHelp; break;
        case '/': options.mode = TopMode::kFilter; break;
        case kKeyEscape:
            options.filter.clear();
            options.chosen = 0;
            break;
        case 'p':
        case 'k':
        case '+':
        case '=':
        case '-': return act(key, chosen_job(status, options), options);
        case kKeyUp: choose(status, rates, options, -1); break;
        case kKeyDown: choose(status, rates, options, 1); break;
        case kKeyPageUp: choose(status, rates, options, -page); break;
        case kKeyPageDown: choose(status, rates, options, page); break;
        case kKeyHome: choose(status, rates, options, -static_cast<int>(status.jobs.size())); break;
        case kKeyEnd: choose(status, rates, options, static_cast<int>(status.jobs.size())); break;
        default: break;
    }
    return {};
}

}  // namespace salus::cli
