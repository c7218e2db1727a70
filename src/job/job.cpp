#include "job/job.h"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "job/client.h"
#include "job/memory_check.h"
#include "job/work.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/file.h"
#include "os/program.h"

namespace salus::job {
namespace {

constexpr unsigned kChildPatienceSeconds = 10;

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.count); }
std::string text_of(std::uint64_t number) { return std::to_string(number); }

struct ScratchBlock {
    std::size_t index;
    std::uint64_t iteration;
    Memory memory;
};

/// State of one thread. The first thread leads: it alone handles the persistent state, the survivor, the log and faults.
struct Thread {
    unsigned index;
    Work work;
    std::vector<ScratchBlock> scratch;
    bool leads() const { return index == 0; }
};

class Job {
public:
    Job(const Options& options, Instant process_start, int log);
    Run run();

private:
    void run_thread(unsigned index);
    void iterate(std::uint64_t k, Thread& thread);
    void wait_until_due(std::uint64_t k);
    void enter(std::uint64_t k);
    void record();
    void grow_state(std::uint64_t k);

    void take_scratch(std::uint64_t k, Thread& thread);
    void return_scratch(Thread& thread);
    bool survives(std::uint64_t k, std::size_t block) const;
    void return_survivor();
    void verify(const ScratchBlock& block) const;
    void verify(std::optional<PersistentState::Change> change, const std::string& where) const;

    void crash(std::uint64_t k, Crash when) const;
    void hang(std::uint64_t k, Hang where) const;
    void fork_child(std::uint64_t k, const Thread& thread);
    void log(std::uint64_t k) const;
    std::string in_iteration(std::uint64_t k) const { return options_.speaker() + "iteration " + text_of(k); }

    const Options& options_;
    Client client_;
    PersistentState state_;
    std::vector<Memory> state_blocks_;
    std::optional<ScratchBlock> survivor_;
    Random arrivals_;
    Instant arrival_;  ///< of the request that the present iteration serves
    Instant entered_;  ///< when the present iteration's turn had come
    Instant left_;     ///< when it was over
    int log_;          ///< -1: none
    std::barrier<> barrier_;
    Run run_;
};

Job::Job(const Options& options, Instant process_start, int log)
    : options_(options),
      client_(options),
      state_(options.seed),
      arrivals_(options.seed),
      log_(log),
      barrier_(static_cast<std::ptrdiff_t>(options.threads)) {
    run_.start = process_start;
}

Run Job::run() {
    grow_state(options_.start_at);
    arrival_ = os::now();
    {
        std::vector<std::jthread> others;
        for (unsigned i = 1; i < options_.threads; ++i) others.emplace_back([this, i] { run_thread(i); });
        run_thread(0);
    }
    return_survivor();
    verify(state_.verify(), options_.speaker() + "at the end");
    run_.end = os::now();
    run_.digest = state_.digest();
    run_.counters = client_.counters();
    for (Memory block : state_blocks_) client_.release(block);
    return run_;
}

/// Note [Threads meet outside]
/// The threads wait for each other before and after an iteration, so that a round is one iteration of the job. They never
/// wait for each other inside: once the service wants the lane back, a thread that is not in yet stays out until those
/// inside have left. The library may therefore see more than one boundary in a round.
void Job::run_thread(unsigned index) {
    Thread thread{index, {}, {}};
    const std::uint64_t last = options_.start_at + options_.iterations;
    for (std::uint64_t k = options_.start_at; k < last; ++k) {
        if (thread.leads()) wait_until_due(k);
        barrier_.arrive_and_wait();
        iterate(k, thread);
        barrier_.arrive_and_wait();
        if (thread.leads()) record();
    }
    [[maybe_unused]] volatile float kept = thread.work.result();
}

void Job::iterate(std::uint64_t k, Thread& thread) {
    if (thread.leads()) crash(k, Crash::kBefore);
    client_.begin();
    if (thread.leads()) enter(k);
    take_scratch(k, thread);
    if (thread.leads()) {
        fork_child(k, thread);
        crash(k, Crash::kDuring);
        hang(k, Hang::kInside);
    }
    thread.work.run(options_.work / options_.threads + (thread.index < options_.work % options_.threads ? 1 : 0));
    for (const ScratchBlock& block : thread.scratch) verify(block);
    if (thread.leads()) verify(state_.step(k), in_iteration(k));
    return_scratch(thread);
    if (thread.leads()) log(k);
    client_.end();
    if (thread.leads()) {
        left_ = os::now();
        crash(k, Crash::kAfter);
        hang(k, Hang::kIdle);
    }
}

/// Requests arrive independently: a late job finds several waiting.
void Job::wait_until_due(std::uint64_t k) {
    if (options_.inference()) {
        arrival_ = arrival_ + seconds_of(arrivals_.exponential(1 / options_.rate));
        os::sleep_until(arrival_);
    } else if (options_.think > Duration{} && k > options_.start_at) {
        os::sleep_until(os::now() + options_.think);
    }
}

void Job::enter(std::uint64_t k) {
    entered_ = os::now();
    if (k == options_.start_at) {
        run_.first_iteration = entered_;
        verify(state_.verify(), in_iteration(k));
    }
    return_survivor();
    grow_state(k);
}

void Job::record() {
    ++run_.iterations;
    run_.inside += left_ - entered_;
    run_.iteration_ms.push_back((left_ - entered_).seconds() * 1e3);
    if (options_.inference()) run_.latency_ms.push_back((os::now() - arrival_).seconds() * 1e3);
}

void Job::grow_state(std::uint64_t k) {
    const std::size_t needed = size_of(options_.persistent_in(k));
    while (state_.size() < needed) {
        const std::size_t size = std::min(size_of(options_.persistent_block), needed - state_.size());
        state_blocks_.push_back(client_.allocate(size, SALUS_PERSISTENT));
        state_.add(state_blocks_.back());
    }
}

void Job::take_scratch(std::uint64_t k, Thread& thread) {
    const std::size_t whole = size_of(options_.ephemeral_in(k)), step = size_of(options_.block);
    for (std::size_t index = 0; index * step < whole; ++index) {
        if (index % options_.threads != thread.index) continue;
        const salus_kind kind = survives(k, index) ? SALUS_EPHEMERAL : options_.scratch_kind;
        const Memory memory = client_.allocate(std::min(step, whole - index * step), kind);
        fill(memory, pattern_key(options_.seed, k, index), options_.touch);
        thread.scratch.push_back({index, k, memory});
    }
}

void Job::return_scratch(Thread& thread) {
    for (const ScratchBlock& block : thread.scratch) {
        if (survives(block.iteration, block.index)) survivor_ = block;
        else client_.release(block.memory);
    }
    thread.scratch.clear();
}

/// The first block, which is the leader's.
bool Job::survives(std::uint64_t k, std::size_t block) const {
    return options_.survive > 0 && block == 0 && (k + 1) % options_.survive == 0;
}

void Job::return_survivor() {
    if (!survivor_) return;
    verify(*survivor_);
    client_.release(survivor_->memory);
    survivor_.reset();
}

void Job::verify(const ScratchBlock& block) const {
    const auto at = first_change(block.memory, pattern_key(options_.seed, block.iteration, block.index), options_.touch);
    if (!at) return;
    fail(kCorrupt, in_iteration(block.iteration) + ": scratch block " + text_of(block.index) + " (" +
                       text_of(block.memory.size()) + " bytes) changed at byte " + text_of(*at));
}

void Job::verify(std::optional<PersistentState::Change> change, const std::string& where) const {
    if (!change) return;
    fail(kCorrupt, where + ": persistent block " + text_of(change->block) + " changed in bytes " + text_of(change->offset) +
                       " to " + text_of(change->offset + change->size - 1));
}

void Job::crash(std::uint64_t k, Crash when) const {
    if (options_.crash_at == k && options_.crash == when) ::raise(SIGKILL);
}

void Job::hang(std::uint64_t k, Hang where) const {
    if (options_.hang_at != k || options_.hang != where) return;
    for (;;) ::pause();
}

void Job::fork_child(std::uint64_t k, const Thread& thread) {
    if (options_.fork_at != k) return;
    const pid_t child = ::fork();
    if (child < 0) fail(kFailed, in_iteration(k) + ": cannot fork: " + std::strerror(errno));
    if (child == 0) {
        ::alarm(kChildPatienceSeconds);  // for a child that waits for a turn that never comes
        ::_exit(client_.try_in_child(thread.scratch.empty() ? Memory{} : thread.scratch.front().memory) ? 0 : 1);
    }
    std::optional<os::Exit> end;
    do end = os::wait_for_end(child);
    while (!end && errno == EINTR);
    if (end && end->by_signal) fail(kCorrupt, in_iteration(k) + ": the child died of signal " + std::to_string(end->number));
    if (end && !end->well())
        fail(kCorrupt, in_iteration(k) + ": the child exited with status " + std::to_string(end->number));
}

/// One write for a line, so that it is there as a whole or not at all.
void Job::log(std::uint64_t k) const {
    if (log_ < 0) return;
    const std::string line = "iteration " + text_of(k) + "\n";
    if (!os::write_all(log_, line))
        fail(kFailed, in_iteration(k) + ": cannot write to '" + options_.log + "': " + std::strerror(errno));
}

os::Descriptor open_log(const std::string& path) {
    if (path.empty()) return {};
    os::Descriptor log = os::open_file(path, os::Open::kAppend, 0644);
    if (!log) fail(kUsage, "--log: cannot write '" + path + "': " + std::strerror(errno));
    return log;
}

}  // namespace

Run run_job(const Options& options, Instant process_start) {
    const os::Descriptor log = open_log(options.log);
    if (options.startup > Duration{}) os::sleep_until(process_start + options.startup);
    return Job(options, process_start, log.get()).run();
}

}  // namespace salus::job
