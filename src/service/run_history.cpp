#include "service/run_history.h"

#include <algorithm>

#include "os/clock.h"
#include "service/log.h"

namespace salus::service {
namespace {

/// Short, because all clients wait while the service waits for the file.
constexpr Duration kPatience = milliseconds(50);

}  // namespace

history::Figures whole_of(const history::Figures& a, const history::Figures& b) {
    history::Figures whole = a.iterations >= b.iterations ? a : b;
    whole.persistent = std::max(a.persistent, b.persistent);
    whole.ephemeral = std::max(a.ephemeral, b.ephemeral);
    return whole;
}

RunHistory::RunHistory(const std::string& state_directory) {
    history::Store::Opened opened = history::Store::open_or_replace(state_directory + "/" + history::kFileName, kPatience);
    if (!opened.remark.empty()) log(LogLevel::kWarning, "the history of jobs: {}", opened.remark);
    store_ = std::move(opened.store);
}

history::Figures RunHistory::recall(unsigned uid, CommandKeys keys) {
    if (!store_ || keys.command == 0) return {};
    const Result<history::Figures> found = store_->find(uid, keys);
    if (found) return found.value();
    log(LogLevel::kWarning, "the history of jobs cannot be read: {}", found.error());
    return {};
}

std::vector<history::CommandPair> RunHistory::pairs_with(unsigned uid, CommandKeys keys) {
    if (!store_ || keys.command == 0) return {};
    Result<std::vector<history::CommandPair>> found = store_->pairs_with(uid, keys);
    if (found) return std::move(found).value();
    log(LogLevel::kWarning, "the history of jobs cannot be read: {}", found.error());
    return {};
}

bool RunHistory::mps_helps(unsigned uid) {
    const Result<bool> helps = store_ ? store_->mps_helps(uid) : false;
    return helps.ok() && helps.value();
}

void RunHistory::record(history::CommandPair pair) {
    if (!store_ || pair.first.command == 0 || pair.second.command == 0) return;
    pair.measured_at_s = os::unix_time_s();
    const Result<bool> recorded = store_->record(std::move(pair));
    if (!recorded) log(LogLevel::kWarning, "cannot record jobs that ran at once in the history: {}", recorded.error());
}

Result<std::vector<history::Record>> RunHistory::list(std::optional<unsigned> uid) {
    return store_ ? store_->list(uid) : std::vector<history::Record>{};
}

Result<std::vector<history::Usage>> RunHistory::usage(std::optional<unsigned> uid, double since_s) {
    return store_ ? store_->usage(uid, since_s) : std::vector<history::Usage>{};
}

Result<std::uint64_t> RunHistory::clear(std::optional<unsigned> uid, std::string_view part) {
    return store_ ? store_->clear(uid, part) : std::uint64_t{0};
}

void RunHistory::record(history::Run run) {
    run.ended_at_s = os::unix_time_s();
    write(run);
}

void RunHistory::record_untold(history::Run run) {
    run.ended_at_s = std::min(run.ended_at_s, os::unix_time_s());
    run.figures = recall(run.uid, run.keys);
    run.figures.iterations = 0;  // so that the length that is known stays
    write(run);
}

void RunHistory::write(const history::Run& run) {
    if (!store_ || run.keys.command == 0) return;
    const Result<bool> recorded = store_->record(run);
    if (!recorded) log(LogLevel::kWarning, "cannot record a run in the history: {}", recorded.error());
}

}  // namespace salus::service
