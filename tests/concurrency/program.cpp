#include "tests/concurrency/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/concurrency/delegate.h"
#include "tests/concurrency/store.h"

namespace salus::concurrency {
namespace {

using Blocks = std::vector<Block>;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPassedOnMax = 6;
constexpr std::uint64_t kHelperWrites = 200;

/// What all threads of a program share.
class Program {
public:
    Program(salus_client* client_, Store& store_, std::uint64_t seed_, unsigned threads_)
        : client(client_), store(store_), seed(seed_), threads(threads_) {}

    void note(std::uint64_t read) { digest_.fetch_add(mix(read, 1), std::memory_order_relaxed); }
    std::uint64_t digest() const { return digest_; }

    /// Blocks for any other thread; false if there are many already.
    bool pass_on(Block& block) {
        const std::lock_guard lock(mutex_);
        if (passed_on_.size() >= kPassedOnMax) return false;
        passed_on_.push_back(std::move(block));
        return true;
    }
    /// What a thread has left behind, for the one that joins it.
    void leave_behind(Blocks blocks) {
        const std::lock_guard lock(mutex_);
        for (Block& block : blocks) left_behind_.push_back(std::move(block));
    }
    /// Takes one block that another thread has passed on, works on it and frees it. False if there is none.
    bool serve_one() {
        Block block;
        {
            const std::lock_guard lock(mutex_);
            if (passed_on_.empty()) return false;
            block = std::move(passed_on_.back());
            passed_on_.pop_back();
        }
        finish(block);
        return true;
    }
    void serve_left_behind() {
        Blocks blocks;
        {
            const std::lock_guard lock(mutex_);
            blocks.swap(left_behind_);
        }
        for (Block& block : blocks) finish(block);
    }
    /// What becomes of a block in others' hands: its seed says it, so that it is the same in any hands.
    void finish(Block& block) {
        const char* const before = std::exchange(place.step, "others' blocks");
        const unsigned stream = static_cast<unsigned>(mix(block.seed, 3) % store.streams());
        for (std::uint64_t i = 0; i < 1 + block.seed % 6; ++i) store.write(block, stream);
        note(store.read(block));
        store.free(block);
        place.step = before;
    }

    salus_client* const client;
    Store& store;
    const std::uint64_t seed;
    const unsigned threads;
    bool passes_on = false;            ///< blocks go from thread to thread
    bool is_broken = false;            ///< the first thread corrupts a block
    Delegate* delegate = nullptr;      ///< works for the others
    std::atomic<unsigned> working{0};  ///< threads that may still pass something on

private:
    std::atomic<std::uint64_t> digest_{0};
    std::mutex mutex_;
    Blocks passed_on_;
    Blocks left_behind_;
};

/// One thread: its iterations are alike, but for small deviations, so that Salus learns what is ephemeral, and errs.
class Worker {
public:
    Worker(Program& program, unsigned index)
        : program_(program), store_(program.store), index_(index), random_(mix(program.seed, 1000 + index)) {
        const std::size_t largest = program.threads <= 2 ? 8 : program.threads <= 4 ? 4 : 2;
        const auto blocks = random_.integer(1, 4);
        stream_ = random_.chance(0.8) ? 0 : static_cast<unsigned>(random_.below(store_.streams()));
        for (int i = 0; i < blocks; ++i) {
            const double kind = random_.uniform();
            shape_.push_back(
                {.size = static_cast<std::size_t>(random_.integer(1, static_cast<std::int64_t>(largest))) * kMiB,
                 .kind = kind < 0.7    ? SALUS_AUTO
                         : kind < 0.85 ? SALUS_EPHEMERAL
                                       : SALUS_PERSISTENT,
                 .dies_early = random_.chance(0.3)});
        }
    }

    void run(int iterations) {
        for (int i = 0; i < iterations; ++i) iterate();
    }
    void iterate() {
        enter();
        compute();
        leave();
        use_outputs();
    }
    /// As iterate(), with something that is done in the midst of it, while blocks are in the lane.
    void iterate_with(const std::function<void()>& in_between) {
        enter();
        Blocks live = allocate_all();
        in_between();
        for (int i = 0; i < 8; ++i) {
            for (Block& block : live) store_.write(block, stream_);
            pause();
        }
        end_blocks(std::move(live));
        leave();
        use_outputs();
    }
    /// The thread ends inside of an iteration.
    void end_inside() {
        enter();
        compute();
        program_.leave_behind(std::exchange(outputs_, {}));
        program_.leave_behind(std::exchange(kept_, {}));
    }
    void drop_all() {
        place.step = "the end";
        drop_kept();
        for (Block& block : weights_) drop(block);
        weights_.clear();
    }
    /// What lives as long as the thread, and changes in every iteration.
    void allocate_weights() {
        for (auto count = random_.integer(0, 3); count > 0; --count) weights_.push_back(take(8 * kMiB, SALUS_PERSISTENT));
    }

private:
    struct Step {
        std::size_t size;
        salus_kind kind;
        bool dies_early;
    };

    void pause() {
        const double what = random_.uniform();
        const auto microseconds = static_cast<useconds_t>(random_.below(400));
        if (what < 0.15) ::usleep(microseconds);
        else if (what < 0.5) std::this_thread::yield();
    }

    /// Into an iteration; or, if its turn does not come in time, what belongs into it is done outside.
    void enter() {
        ++place.iteration;
        place.step = "begin";
        const double how = random_.uniform();
        const auto patience_ns = 1000 * random_.below(3000);
        const auto attempts = random_.integer(1, 4);
        if (how < 0.6) {
            begins_ = how < 0.12 ? 2 : 1;
            for (unsigned i = 0; i < begins_; ++i) must(salus_begin(program_.client), "salus_begin");
            return;
        }
        for (int i = 0; i < attempts; ++i) {
            const salus_status status = salus_begin_within(program_.client, patience_ns, index_);
            if (status == SALUS_WAITING) continue;
            must(status, "salus_begin_within");
            begins_ = 1;
            return;
        }
        must(salus_forgo(program_.client), "salus_forgo");
        begins_ = 0;
    }

    void leave() {
        place.step = "end";
        const auto end = [this] {
            for (; begins_ > 1; --begins_) must(salus_end(program_.client), "salus_end");
            if (begins_ > 0) must(salus_leave(program_.client, 1), "salus_leave");
            begins_ = 0;
        };
        const double how = random_.uniform();
        if (how < 0.1) store_.elsewhere(end);
        else if (how < 0.2 && !outputs_.empty()) store_.capture(outputs_.back(), end);
        else end();
    }

    Block take(std::size_t size, salus_kind kind) {
        Block block = store_.allocate({.size = size, .kind = kind, .seed = random_.next(), .stream = stream_});
        store_.write(block, stream_);
        return block;
    }
    /// Mostly it is looked at before.
    void drop(Block& block) {
        if (random_.chance(0.8)) program_.note(store_.read(block));
        store_.free(block);
    }
    void work_on(Block& block) {
        const bool moves = random_.chance(0.2);
        const auto other = static_cast<unsigned>(random_.below(store_.streams()));
        store_.write(block, moves ? other : stream_);
    }

    Blocks allocate_all() {
        place.step = "inside";
        Blocks live;
        for (const Step& step : shape_) {
            live.push_back(take(step.size, step.kind));
            pause();
            if (random_.chance(0.3)) work_on(live[random_.below(live.size())]);
            if (!step.dies_early) continue;
            drop(live.back());
            live.pop_back();
        }
        return live;
    }

    void compute() {
        Blocks live = allocate_all();
        if (program_.delegate && random_.chance(0.4)) live.push_back(ask_delegate(/*inside=*/true));
        if (program_.passes_on && random_.chance(0.3)) program_.serve_one();
        if (store_.can_fork() && random_.chance(0.05)) fork_child(live);
        // Now and then one more than usual.
        if (random_.chance(0.1)) live.push_back(take(kMiB * static_cast<std::size_t>(random_.integer(1, 2)), SALUS_AUTO));
        if (!weights_.empty()) work_on(weights_[random_.below(weights_.size())]);
        end_blocks(std::move(live));
    }

    /// At the end of an iteration some live on: sometimes that was to be expected.
    void end_blocks(Blocks live) {
        place.step = "inside, at its end";
        if (random_.chance(0.25)) drop_kept();
        for (Block& block : live) {
            pause();
            if (random_.chance(0.4)) outputs_.push_back(std::move(block));
            else drop(block);
        }
    }

    void drop_kept() {
        for (Block& block : kept_) drop(block);
        kept_.clear();
    }

    /// Outside of any iteration.
    void use_outputs() {
        place.step = "outside";
        if (program_.is_broken && index_ == 0 && !outputs_.empty()) {
            store_.corrupt(outputs_[0]);
            program_.note(store_.read(outputs_[0]));
        }
        if (program_.delegate && random_.chance(0.3)) outputs_.push_back(ask_delegate(/*inside=*/false));
        for (Block& block : outputs_) {
            for (auto times = random_.integer(1, 16); times > 0; --times) {
                work_on(block);
                if (random_.chance(0.2)) program_.note(store_.read(block));
            }
        }
        if (store_.can_fork() && random_.chance(0.1)) fork_child(outputs_);
        if (program_.threads > 1 && random_.chance(0.05)) invite_visitor();
        if (random_.chance(0.2)) salus_give_back(program_.client);
        for (Block& block : outputs_) {
            const double fate = random_.uniform();
            if (fate < 0.4) drop(block);
            else if (fate < 0.6 && kept_.size() < 2) kept_.push_back(std::move(block));
            else if (fate < 0.9 && program_.passes_on && program_.pass_on(block)) continue;
            else program_.finish(block);
        }
        outputs_.clear();
        if (random_.chance(0.3)) drop_kept();
        pause();
    }

    /// Temporary blocks and a result, made by a thread that is in no iteration itself.
    Block ask_delegate(bool inside) {
        const bool tells = inside && begins_ > 0;
        if (tells) must(salus_delegate(program_.client, 1), "salus_delegate");
        Block result = program_.delegate->work(random_.next());
        if (tells) must(salus_delegate(program_.client, 0), "salus_delegate");
        return result;
    }

    /// It sees this thread's blocks as they are now, whatever its parent does with them.
    void fork_child(Blocks& own) {
        const pid_t child = ::fork();
        if (child == 0) {
            place.step = "in a child";
            for (const Block& block : own) store_.read(block);
            for (const Block& block : kept_) store_.read(block);
            ::_exit(0);
        }
        if (child < 0) fail("no child: %d", errno);
        for (Block& block : own) store_.write(block, stream_);
        int status = 0;
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (status != 0) fail("a child ended with status 0x%x", static_cast<unsigned>(status));
    }

    /// A thread that comes, has one iteration, and ends inside of it.
    void invite_visitor() {
        Block left;
        const std::uint64_t seed = random_.next();
        const Place here = place;
        std::thread visitor([&] {
            place = {here.seed, here.thread + 100, 0, "as a visitor"};
            store_.enter_thread();
            must(salus_begin(program_.client), "salus_begin");
            Block scratch = store_.allocate({.size = kMiB, .kind = SALUS_EPHEMERAL, .seed = mix(seed, 1)});
            store_.write(scratch, 0);
            left = store_.allocate({.size = 2 * kMiB, .seed = mix(seed, 2)});
            store_.write(left, 0);
            program_.note(store_.read(scratch));
            store_.free(scratch);
        });
        visitor.join();
        program_.finish(left);
    }

    Program& program_;
    Store& store_;
    const unsigned index_;
    Random random_;
    unsigned stream_ = 0;
    std::vector<Step> shape_;
    unsigned begins_ = 0;
    Blocks outputs_;  ///< of the last iteration
    Blocks kept_;     ///< of earlier ones
    Blocks weights_;
};

/// The other threads of a program: workers, and such as only use what they are given.
class Others {
public:
    explicit Others(Program& program) : program_(program) {}

    void start() {
        for (unsigned i = 1; i < program_.threads; ++i) {
            Random random(mix(program_.seed, 2000 + i));
            const bool only_helps = program_.passes_on && random.chance(0.3);
            if (!only_helps) ++program_.working;
            threads_.emplace_back([this, i, random, only_helps] {
                place = {program_.seed, static_cast<int>(i), 0, "start"};
                program_.store.enter_thread();
                if (only_helps) help(i);
                else work(i, random);
            });
        }
    }
    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
        program_.serve_left_behind();
        while (program_.serve_one()) {}
    }

private:
    void work(unsigned index, Random random) {
        Worker worker(program_, index);
        worker.run(static_cast<int>(random.integer(3, 10)));
        if (random.chance(0.2)) worker.end_inside();
        else worker.drop_all();
        --program_.working;
    }
    /// In no iteration, ever: uses what it is given, and goes on writing to a block of its own.
    void help(unsigned index) {
        Block own = program_.store.allocate({.size = 2 * kMiB, .seed = mix(program_.seed, 3000 + index)});
        while (program_.working > 0) {
            if (own.version < kHelperWrites) program_.store.write(own, 0);
            if (!program_.serve_one()) ::usleep(100);
        }
        while (own.version < kHelperWrites) program_.store.write(own, 0);
        program_.finish(own);
    }

    Program& program_;
    std::vector<std::thread> threads_;
};

/// One thread, then all of them, then perhaps one again.
void run_threads(Program& program, Random random) {
    Worker first(program, 0);
    first.allocate_weights();
    first.run(static_cast<int>(random.integer(3, 8)));
    if (program.threads > 1) {
        Others others(program);
        program.passes_on = random.chance(0.5);
        const bool starts_inside = random.chance(0.5);
        const bool waits_inside = random.chance(0.3);
        const auto start = [&] {
            if (program.passes_on) must(salus_set_threaded(program.client, 1), "salus_set_threaded");
            others.start();
            if (waits_inside) others.join();
        };
        if (starts_inside) first.iterate_with(start);
        else start();
        first.run(static_cast<int>(random.integer(0, 6)));
        if (random.chance(0.03)) must(salus_stop_sharing(program.client), "salus_stop_sharing");
        place.step = "joining";
        others.join();
        if (program.passes_on) must(salus_set_threaded(program.client, 0), "salus_set_threaded");
        program.passes_on = false;
        first.run(static_cast<int>(random.integer(0, 4)));
    }
    first.drop_all();
    program.serve_left_behind();
}

salus_client* attach(Random& random) {
    // What is alive at a boundary, though it was expected to be dead, is what moves.
    const auto mispredict = random.below(6);
    if (mispredict == 2 || mispredict == 3) ::setenv("SALUS_MISPREDICT_EVERY", std::to_string(mispredict).c_str(), 1);
    salus_options options{};
    options.size = sizeof options;
    if (random.chance(0.5)) {  // no profiling: into the lane at once
        options.persistent_hint = 16 * kMiB;
        options.ephemeral_hint = 32 * kMiB;
    }
    salus_client* client = nullptr;
    const salus_status status = salus_attach(&options, &client);
    if (status != SALUS_OK) fail("salus_attach: %d, %s", status, salus_error_text());
    return client;
}

}  // namespace

Outcome run_program(std::uint64_t seed, bool on_gpu, bool broken) {
    place = {seed, 0, 0, "start"};
    Random random(mix(seed, 0));
    const auto threads = static_cast<unsigned>(random.integer(1, 8));
    salus_client* const client = attach(random);
    const std::unique_ptr<Store> store = on_gpu ? make_cuda_store(client, seed) : make_host_store(client);
    store->enter_thread();
    Program program(client, *store, seed, threads);
    program.is_broken = broken;
    const bool has_delegate = on_gpu && random.chance(0.5);
    {
        Delegate delegate(*store, [&](std::uint64_t read) { program.note(read); });
        if (has_delegate) program.delegate = &delegate;
        run_threads(program, random);
    }
    salus_counters counters{};
    counters.size = sizeof counters;
    must(salus_get_counters(client, &counters), "salus_get_counters");
    Outcome outcome{.digest = program.digest(),
                    .threads = threads,
                    .lane_bytes = counters.lane_bytes,
                    .evacuations = counters.evacuations,
                    .turns = counters.turns,
                    .page_outs = counters.page_outs,
                    .denied = store->denied()};
    place.step = "detach";
    // After salus_forgo a thread of the library may be inside for a moment.
    salus_status left = salus_detach(client);
    for (int i = 0; left == SALUS_MISUSE && i < 5000; ++i) {
        ::usleep(1000);
        left = salus_detach(client);
    }
    must(left, "salus_detach");
    return outcome;
}

}  // namespace salus::concurrency
