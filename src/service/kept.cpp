#include "service/kept.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/client_class.h"
#include "base/text.h"
#include "os/file.h"
#include "os/trust.h"
#include "wire/assignments.h"

namespace salus::service {
namespace {

using shell::ProcessId;

constexpr std::string_view kHeading =
    "# What the next service takes over from this one; docs/service.md, \"Restarts\". salusd writes this file.\n";
constexpr std::int64_t kIdMax = std::int64_t{1} << 32;
constexpr std::int64_t kFigureMax = std::int64_t{1} << 50;

bool is_one_line(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// The text behind `start`, if the word begins with that.
std::optional<std::string_view> after(std::string_view word, std::string_view start) {
    return word.starts_with(start) ? std::optional(word.substr(start.size())) : std::nullopt;
}

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t least, std::int64_t most) {
    const auto number = parse_integer(text);
    return number && *number >= least && *number <= most ? number : std::nullopt;
}

std::string text_of(const KeptJob& job) {
    std::string line = fmt::format("job {} uid={} processes=", job.job, job.uid);
    for (std::size_t i = 0; i < job.processes.size(); ++i)
        line += fmt::format("{}{}/{}", i == 0 ? "" : ",", job.processes[i].pid, job.processes[i].start_time);
    const shell::UserSettings& said = job.said;
    if (said.paused) line += " paused";
    if (said.suspended) line += " suspended";
    if (said.priority) line += fmt::format(" priority={}", *said.priority);
    if (said.weight) line += fmt::format(" weight={}", *said.weight);
    if (said.iterations) line += fmt::format(" iterations={}", *said.iterations);
    if (said.interactive) line += fmt::format(" class={}", name_of_class(*said.interactive));
    const RunFigures& gone = job.gone;
    if (gone != RunFigures{})
        line += fmt::format(" gone={}/{}/{}/{}/{}", gone.iterations, gone.iteration_time.ns, gone.persistent.count,
                            gone.ephemeral.count, gone.interactive ? 1 : 0);
    return line + "\n";
}

std::optional<std::vector<ProcessId>> processes_in(std::string_view text) {
    std::vector<ProcessId> processes;
    for (const std::string_view word : split(text, ',')) {
        const auto parts = split(word, '/');
        const auto pid = number_in(parts[0], 1, kIdMax);
        const auto start = parts.size() == 2 ? number_in(parts[1], 0, INT64_MAX) : std::nullopt;
        if (!pid || !start) return std::nullopt;
        processes.push_back({static_cast<int>(*pid), static_cast<std::uint64_t>(*start)});
    }
    return processes;
}

std::optional<RunFigures> figures_in(std::string_view text) {
    const auto parts = split(text, '/');
    if (parts.size() != 5) return std::nullopt;
    std::int64_t numbers[5];
    for (std::size_t i = 0; i < 5; ++i) {
        const auto number = number_in(parts[i], 0, kFigureMax);
        if (!number) return std::nullopt;
        numbers[i] = *number;
    }
    return RunFigures{static_cast<std::uint64_t>(numbers[0]), {numbers[1]}, {numbers[2]}, {numbers[3]}, numbers[4] != 0};
}

std::optional<KeptJob> job_in(std::string_view line) {
    const auto words = split(line, ' ');
    KeptJob job;
    const auto number = number_in(words[0], 1, kIdMax);
    if (!number) return std::nullopt;
    job.job = static_cast<std::uint32_t>(*number);
    std::vector<std::string_view> assignments;  // those of `salus set`
    std::optional<std::int64_t> uid;
    for (const std::string_view word : std::span(words).subspan(1)) {
        if (const auto text = after(word, "uid=")) {
            uid = number_in(*text, 0, kIdMax);
        } else if (const auto list = after(word, "processes=")) {
            job.processes = processes_in(*list).value_or(std::vector<ProcessId>{});
        } else if (const auto figures = after(word, "gone=")) {
            job.gone = figures_in(*figures).value_or(RunFigures{});
        } else if (word == "paused") {
            job.said.paused = true;
        } else if (word == "suspended") {
            job.said.suspended = true;
        } else {
            assignments.push_back(word);
        }
    }
    if (!uid || job.processes.empty()) return std::nullopt;
    job.uid = static_cast<unsigned>(*uid);
    if (assignments.empty()) return job;
    const Result<wire::Assignments> said = wire::parse_assignments(assignments);
    if (!said) return std::nullopt;
    job.said.priority = said.value().priority;
    job.said.weight = said.value().weight;
    job.said.iterations = said.value().iterations;
    job.said.interactive = said.value().interactive;
    return job;
}

}  // namespace

std::string text_of(const Kept& kept) {
    std::string text(kHeading);
    for (const auto& [name, value] : kept.given) {
        if (is_one_line(value)) text += fmt::format("given {} {}\n", name, value);
    }
    if (!kept.policy.empty()) text += fmt::format("policy {} instead of {}\n", kept.policy, kept.instead_of);
    for (const KeptJob& job : kept.jobs) text += text_of(job);
    return text;
}

Kept kept_in(std::string_view text) {
    Kept kept;
    for (const std::string_view line : split(text, '\n')) {
        if (const auto option = after(line, "given ")) {
            const std::size_t blank = option->find(' ');
            if (blank != std::string_view::npos)
                kept.given.emplace_back(option->substr(0, blank), option->substr(blank + 1));
        } else if (const auto policy = after(line, "policy ")) {
            const auto words = split(*policy, ' ');
            if (words.size() != 4) continue;
            kept.policy = words[0];
            kept.instead_of = words[3];
        } else if (const auto job = after(line, "job ")) {
            if (auto read = job_in(*job)) kept.jobs.push_back(std::move(*read));
        }
    }
    return kept;
}

std::string kept_path(const std::string& state) { return state + "/settings"; }

Kept read_kept(const std::string& state) {
    const std::string path = kept_path(state);
    if (os::why_distrusted(path)) return {};
    const Result<std::string> text = os::read_file(path);
    return text ? kept_in(text.value()) : Kept{};
}

}  // namespace salus::service
