// What turns cost between real processes: a boundary, a hand-over, a crowd, and a job that is alone.
//
//     salus_bench_turns [--quick] [--only boundary|hand-over|crowd|alone] [--turns N] [--salusd PATH] [--job PATH]
//
// What depends on the machine is measured against something bare in the same run, in turns with it, and told as a ratio of
// medians: other programs then disturb both alike. A missed target is no failure; a client that dies or waits for ever is.
#include <linux/futex.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "processes.h"
#include "salus/salus.h"

namespace {

using namespace salus::bench;

constexpr std::int64_t kSecond = 1'000'000'000;
/// Whoever waits so long for a turn was forgotten.
constexpr std::int64_t kPatience = 10 * kSecond;

struct Options {
    std::string salusd;
    std::string job;
    std::string only;
    std::uint64_t turns = 1'000'000;
    bool quick = false;
};

struct Row {
    std::string figure;
    std::string value;
    std::string spread;
    std::string target;
    std::string verdict;
};
using Table = std::vector<Row>;

// ---------------------------------------------------------------------------------------------------------- figures

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
    char line[200];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return line;
}

/// REQUIRES: not empty.
double percentile(std::vector<double> values, double percent) {
    std::sort(values.begin(), values.end());
    const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}
double median(const std::vector<double>& values) { return percentile(values, 50); }

std::string spread(const char* format, const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    char from[40];
    char to[40];
    std::snprintf(from, sizeof from, format, *least);
    std::snprintf(to, sizeof to, format, *most);
    return std::string(from) + " .. " + to;
}

std::string verdict(bool ok) { return ok ? "ok" : "MISSED"; }

void print(const Table& table) {
    std::printf("\n%-42s %12s  %-20s %-10s\n", "figure", "value", "spread", "target");
    for (const Row& row : table) {
        std::printf("%-42s %12s  %-20s %-10s %s\n", row.figure.c_str(), row.value.c_str(), row.spread.c_str(),
                    row.target.c_str(), row.verdict.c_str());
    }
}

// ---------------------------------------------------------------------------------------------------------- clients

/// This process, attached. It states its needs, so that it is not profiled first.
class Client {
public:
    Client() {
        salus_options options{};
        options.size = sizeof options;
        options.persistent_hint = options.ephemeral_hint = 1 << 20;
        if (salus_attach(&options, &client_) != SALUS_OK) throw Broken(std::string("cannot attach: ") + salus_error_text());
    }
    ~Client() { salus_detach(client_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void begin() {
        if (salus_begin(client_) != SALUS_OK) throw Broken(std::string("salus_begin: ") + salus_error_text());
    }
    void end() {
        if (salus_end(client_) != SALUS_OK) throw Broken(std::string("salus_end: ") + salus_error_text());
    }
    salus_counters counters() {
        salus_counters counters{};
        counters.size = sizeof counters;
        salus_get_counters(client_, &counters);
        if (!counters.shared) throw Broken("the service is lost");
        return counters;
    }
    salus_client* get() const { return client_; }

private:
    salus_client* client_ = nullptr;
};

/// Nothing around the calls but the loop.
void pass_boundaries(salus_client* client, long pairs) {
    for (long i = 0; i < pairs; ++i) {
        salus_end(client);
        salus_begin(client);
    }
}

// --------------------------------------------------------------------------------------------------------- boundary

struct BoundaryTimes {
    static constexpr std::size_t kMax = 15;
    std::array<double, kMax> ns_a_pair{};
    std::atomic<std::uint64_t> done{0};
};

constexpr int kNoTracing = 77;

/// A client that passes so many boundaries between two marks, which are system calls that do nothing else.
int be_traced(long pairs) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return kNoTracing;
    Client client;
    client.begin();
    pass_boundaries(client.get(), 1000);
    ::raise(SIGSTOP);
    ::syscall(SYS_getppid);
    pass_boundaries(client.get(), pairs);
    ::syscall(SYS_getppid);
    client.end();
    return 0;
}

/// How many system calls the main thread makes at so many boundaries. Nothing if tracing is refused.
std::optional<long> count_system_calls(long pairs) {
    Process process([pairs] { return be_traced(pairs); });
    long calls = 0;
    int marks = 0;
    int status = 0;
    if (::waitpid(process.pid(), &status, 0) != process.pid() || !WIFSTOPPED(status)) return std::nullopt;
    if (::ptrace(PTRACE_SETOPTIONS, process.pid(), nullptr, PTRACE_O_TRACESYSGOOD) != 0) return std::nullopt;
    while (marks < 2) {
        if (::ptrace(PTRACE_SYSCALL, process.pid(), nullptr, nullptr) != 0 ||
            ::waitpid(process.pid(), &status, 0) != process.pid() || !WIFSTOPPED(status)) {
            throw Broken("a client died while it was traced");
        }
        __ptrace_syscall_info info{};
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        if (::ptrace(PTRACE_GET_SYSCALL_INFO, process.pid(), sizeof info, &info) <= 0) return std::nullopt;
        if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
        if (info.entry.nr == SYS_getppid) ++marks;
        else if (marks == 1) ++calls;
    }
    ::ptrace(PTRACE_DETACH, process.pid(), nullptr, nullptr);
    wait_for({&process, 1}, [] {});
    return calls;
}

void measure_boundary(const Options& options, Scratch& scratch, Table& table) {
    Service service(options.salusd, scratch, {});
    const std::size_t repetitions = options.quick ? 9 : BoundaryTimes::kMax;
    const long pairs = options.quick ? 100'000 : 1'000'000;
    Shared<BoundaryTimes> times;
    Process process([&] {
        Client client;
        client.begin();
        pass_boundaries(client.get(), pairs / 10);
        // Nobody waits here, so the processor's time is all there is; what others take of it is not ours.
        for (std::size_t i = 0; i < repetitions; ++i) {
            const std::int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
            pass_boundaries(client.get(), pairs);
            times->ns_a_pair[i] = static_cast<double>(now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / static_cast<double>(pairs);
            ++times->done;
        }
        client.end();
        client.counters();
        return 0;
    });
    Watchdog watchdog("boundary", kPatience);
    wait_for({&process, 1}, [&] {
        service.check();
        watchdog.see(times->done);
    });
    const std::vector<double> ns(times->ns_a_pair.begin(), times->ns_a_pair.begin() + repetitions);
    table.push_back({"boundary: salus_end + salus_begin", text("%.1f ns", median(ns)), spread("%.1f", ns), "<= 100 ns",
                     verdict(median(ns) <= 100)});

    const long traced = 100'000;
    const std::optional<long> calls = count_system_calls(traced);
    table.push_back({text("boundary: system calls of %ld", traced), calls ? text("%ld", *calls) : "not measured", "", "0",
                     calls ? verdict(*calls == 0) : ""});
    service.show_warnings();
}

// -------------------------------------------------------------------------------------------------------- hand-over

/// Two processes, of which one at a time is inside. Only that one writes here.
struct Alternation {
    static constexpr std::size_t kMax = 1000;
    std::atomic<int> attached{0};
    std::atomic<int> inside{0};
    int last = -1;              ///< who was inside before
    std::int64_t ended_ns = 0;  ///< when it left
    std::atomic<std::size_t> count{0};
    std::array<double, kMax> us{};

    // The bare one only.
    std::array<std::atomic<std::uint32_t>, 2> turn{};
};

/// Where the three processes of a hand-over run. Left to themselves they are put together or apart as the kernel likes,
/// which makes more of a difference than anything we do.
enum class Placement : std::uint8_t { kFree, kApart, kTogether };

struct Plan {
    std::size_t rounds;
    std::size_t handovers;      ///< in a round
    std::int64_t iteration_ns;  ///< how long one stays inside
    Placement placement;
};

/// Which processor is for whom: 0 and 2 for the clients, 1 for the service. `process` 0 is this one.
void put(pid_t process, std::size_t role, Placement placement) {
    static const cpu_set_t all = [] {
        cpu_set_t found;
        CPU_ZERO(&found);
        ::sched_getaffinity(0, sizeof found, &found);
        return found;
    }();
    cpu_set_t chosen = all;
    if (placement != Placement::kFree) {
        std::vector<std::size_t> processors;
        for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
            if (CPU_ISSET(i, &all)) processors.push_back(i);
        }
        CPU_ZERO(&chosen);
        CPU_SET(placement == Placement::kApart ? processors[role % processors.size()] : processors[0], &chosen);
    }
    if (::sched_setaffinity(process, sizeof chosen, &chosen) != 0) throw Broken("cannot choose a processor");
}

/// The first of a round come while processes and caches warm up.
constexpr std::size_t kNotCounted = 50;

template <typename Begin, typename End>
void alternate(Alternation& shared, int me, const Plan& plan, const Begin& begin, const End& end) {
    put(0, me == 0 ? 0 : 2, plan.placement);
    ++shared.attached;
    while (shared.attached < 2) sleep_ms(1);
    while (shared.count < plan.handovers + kNotCounted) {
        begin();
        const std::int64_t now = now_ns();
        if (shared.inside.exchange(1) != 0) throw Broken("two clients of a lane are inside at once");
        if (shared.last == 1 - me) {
            const std::size_t index = shared.count++;
            if (index >= kNotCounted && index < plan.handovers + kNotCounted)
                shared.us[index - kNotCounted] = static_cast<double>(now - shared.ended_ns) * 1e-3;
        }
        while (now_ns() < now + plan.iteration_ns) {}
        shared.last = me;
        shared.inside = 0;
        shared.ended_ns = now_ns();
        end();
    }
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
    return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

/// The least that a service could do: whoever writes its eventfd has left, so the other is woken.
int serve_bare(Alternation& shared, const std::array<int, 2>& notify, const Plan& plan) {
    put(0, 1, plan.placement);
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    for (std::uint32_t i = 0; i < 2; ++i) {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLET;
        event.data.u32 = i;
        if (::epoll_ctl(epoll, EPOLL_CTL_ADD, notify[i], &event) != 0) return 1;
    }
    while (shared.attached < 2) sleep_ms(1);
    for (std::uint32_t next = 0;;) {
        shared.turn[next].store(1, std::memory_order_release);
        futex(shared.turn[next], FUTEX_WAKE, INT_MAX);
        epoll_event event{};
        if (::epoll_wait(epoll, &event, 1, -1) == 1) next = 1 - event.data.u32;
    }
}

int be_bare_client(Alternation& shared, int me, const std::array<int, 2>& notify, const Plan& plan) {
    std::atomic<std::uint32_t>& turn = shared.turn[static_cast<std::size_t>(me)];
    const auto begin = [&] {
        while (turn.load(std::memory_order_acquire) == 0) futex(turn, FUTEX_WAIT, 0);
        turn.store(0, std::memory_order_relaxed);
    };
    const auto end = [&] {
        const std::uint64_t one = 1;
        if (::write(notify[static_cast<std::size_t>(me)], &one, sizeof one) != sizeof one) throw Broken("eventfd");
    };
    alternate(shared, me, plan, begin, end);
    return 0;
}

int be_client(Alternation& shared, int me, const Plan& plan) {
    Client client;
    alternate(
        shared, me, plan, [&] { client.begin(); }, [&] { client.end(); });
    client.counters();
    return 0;
}

/// Microseconds from one's leaving to the other's being inside.
std::vector<double> alternate_once(Service& salusd, const Plan& plan, bool bare) {
    Shared<Alternation> shared;
    std::vector<Process> clients;
    std::optional<Process> service;  // the bare one
    std::array<int, 2> notify{-1, -1};
    if (bare) {
        for (int& descriptor : notify) descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        service.emplace([&] { return serve_bare(*shared, notify, plan); });
    }
    for (int me : {0, 1}) {
        clients.emplace_back(
            [&, me] { return bare ? be_bare_client(*shared, me, notify, plan) : be_client(*shared, me, plan); });
    }
    Watchdog watchdog("hand-over", kPatience);
    wait_for(clients, [&] {
        salusd.check();
        watchdog.see(shared->count);
    });
    for (int descriptor : notify) {
        if (descriptor >= 0) ::close(descriptor);
    }
    return {shared->us.begin(), shared->us.begin() + static_cast<std::ptrdiff_t>(plan.handovers)};
}

struct Alternations {
    std::vector<double> all;
    std::vector<double> medians;  ///< of rounds
    void add(const std::vector<double>& round) {
        all.insert(all.end(), round.begin(), round.end());
        medians.push_back(median(round));
    }
    Row row(const std::string& name) const {
        return {name, text("%.2f us", median(medians)), spread("%.2f", medians), "", ""};
    }
    void print(const char* name) const {
        std::printf("  %-12s p50 %.2f us, p90 %.2f us, p99 %.2f us; medians of rounds %s\n", name, percentile(all, 50),
                    percentile(all, 90), percentile(all, 99), spread("%.2f", medians).c_str());
    }
};

void compare_hand_over(const std::string& name, Service& service, const Plan& plan, Table& table) {
    Alternations salus, bare;
    std::vector<double> ratios;
    for (std::size_t round = 0; round < plan.rounds; ++round) {
        salus.add(alternate_once(service, plan, /*bare=*/false));
        bare.add(alternate_once(service, plan, /*bare=*/true));
        ratios.push_back(salus.medians.back() / bare.medians.back());
    }
    std::printf("%s\n", name.c_str());
    salus.print("salus");
    bare.print("bare");
    const double ratio = median(salus.medians) / median(bare.medians);
    table.push_back(salus.row(name));
    table.push_back(bare.row("  bare: eventfd, epoll, futex"));
    table.push_back({"  ratio", text("%.2f", ratio), spread("%.2f", ratios), "<= 1.3", verdict(ratio <= 1.3)});
}

void measure_hand_over(const Options& options, Scratch& scratch, Table& table) {
    Service service(options.salusd, scratch, {"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    Plan plan{options.quick ? 4u : 20u, options.quick ? 200u : 1000u, 0, Placement::kFree};
    const auto compare = [&](const char* name, std::int64_t iteration_us, Placement placement) {
        plan.iteration_ns = iteration_us * 1000;
        plan.placement = placement;
        put(service.process().pid(), 1, placement);
        compare_hand_over(name, service, plan, table);
    };
    // After an empty iteration a hand-over waits for what the service still has to do about the one before.
    compare("hand-over, empty iterations", 0, Placement::kFree);
    compare("hand-over, iterations of 100 us", 100, Placement::kFree);
    compare("hand-over, service on another CPU", 100, Placement::kApart);
    compare("hand-over, all on one CPU", 100, Placement::kTogether);
    service.show_warnings();
}

// ------------------------------------------------------------------------------------------------------------ crowd

constexpr std::size_t kCrowd = 100;
/// A sleeping thread looks at its word that often by itself: a wait that ends then may hide a lost wake-up.
constexpr std::int64_t kSuspicious = kSecond / 5;

struct Member {
    alignas(64) std::atomic<std::int64_t> waits_since{0};  ///< 0: it does not wait
    std::atomic<std::uint64_t> turns{0};
    std::atomic<std::uint64_t> iterations{0};
    std::atomic<std::int64_t> longest_wait{0};
    std::atomic<std::uint64_t> suspicious{0};
};

struct Crowd {
    std::atomic<std::size_t> attached{0};
    std::atomic<bool> stop{false};
    std::atomic<int> inside{0};
    std::array<Member, kCrowd> members{};
};

int be_member(Crowd& crowd, Member& me) {
    Client client;
    ++crowd.attached;
    while (crowd.attached < kCrowd) sleep_ms(1);
    while (!crowd.stop.load(std::memory_order_relaxed)) {
        const std::int64_t since = now_ns();
        me.waits_since = since;
        client.begin();
        me.waits_since = 0;
        const std::int64_t waited = now_ns() - since;
        if (crowd.inside.exchange(1) != 0) throw Broken("two clients of a lane are inside at once");
        if (waited > me.longest_wait) me.longest_wait = waited;
        if (waited >= kSuspicious) ++me.suspicious;
        ++me.iterations;
        me.turns = client.counters().turns;
        crowd.inside = 0;
        client.end();
    }
    return 0;
}

void measure_crowd(const Options& options, Scratch& scratch, Table& table) {
    Service service(options.salusd, scratch, {"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"});
    const std::uint64_t wanted = options.quick ? std::min<std::uint64_t>(options.turns, 10'000) : options.turns;
    Shared<Crowd> crowd;
    std::vector<Process> processes;
    for (Member& member : crowd->members) processes.emplace_back([&] { return be_member(*crowd, member); });
    const auto total = [&] {
        std::uint64_t turns = 0;
        for (const Member& member : crowd->members) turns += member.turns;
        return turns;
    };
    std::int64_t start = 0;
    std::int64_t stopped = 0;
    std::uint64_t given = 0;
    Watchdog attaching("crowd: attaching", kPatience);
    const auto watch = [&] {
        service.check();
        const std::int64_t now = now_ns();
        if (crowd->attached < kCrowd) return attaching.see(crowd->attached);
        if (start == 0) start = now;
        for (std::size_t i = 0; i < kCrowd; ++i) {
            const std::int64_t since = crowd->members[i].waits_since;
            if (since != 0 && now - since > kPatience) throw Broken(text("crowd: client %zu was forgotten", i));
        }
        if (stopped != 0 || total() < wanted) return;
        stopped = now;
        given = total();
        crowd->stop = true;
    };
    wait_for(processes, watch);
    service.show_warnings();

    std::vector<double> turns, waits_ms;
    std::uint64_t suspicious = 0, iterations = 0;
    for (const Member& member : crowd->members) {
        turns.push_back(static_cast<double>(member.turns));
        waits_ms.push_back(static_cast<double>(member.longest_wait) * 1e-6);
        suspicious += member.suspicious;
        iterations += member.iterations;
    }
    const double seconds = static_cast<double>(stopped - start) * 1e-9;
    const auto [fewest, most] = std::minmax_element(turns.begin(), turns.end());
    if (*fewest == 0) throw Broken("crowd: a client got no turn");
    std::printf("crowd: %zu clients, %lu turns, %lu iterations in %.1f s\n", kCrowd, given, iterations, seconds);
    table.push_back({text("crowd: turns a second, %zu clients", kCrowd), text("%.0f", static_cast<double>(given) / seconds),
                     "", "", ""});
    table.push_back({"crowd: turns a client", text("%.0f", median(turns)), text("%.0f .. %.0f", *fewest, *most), "", ""});
    table.push_back({"crowd: longest wait of a client", text("%.1f ms", *std::max_element(waits_ms.begin(), waits_ms.end())),
                     spread("%.1f", waits_ms), "< 10 s", "ok"});
    table.push_back({"crowd: waits of 200 ms or more", text("%lu", suspicious), "", "0", verdict(suspicious == 0)});
}

// ------------------------------------------------------------------------------------------------------------ alone

struct JobTimes {
    std::vector<double> iteration_ms;
    std::vector<double> seconds;
    std::vector<double> processor_seconds;  ///< which other programs disturb less
};

void run_job(const Options& options, Scratch& scratch, const std::vector<std::string>& more, JobTimes& times) {
    const std::string report = scratch.fresh(".json");
    const std::string log = scratch.fresh(".log");
    std::vector<std::string> command{options.job,   "--persistent", "64MiB",
                                     "--ephemeral", "256MiB",       "--touch",
                                     "full",        "--iterations", options.quick ? "6" : "60",
                                     "--report",    report,         "--quiet"};
    command.insert(command.end(), more.begin(), more.end());
    Process job(command, log);
    const std::int64_t start = now_ns();
    try {
        wait_for({&job, 1}, [&] {
            if (now_ns() - start > 60 * kSecond) throw Broken("it does not end");
        });
        const nlohmann::json told = nlohmann::json::parse(std::ifstream(report));
        const bool alone = std::find(more.begin(), more.end(), "--alone") != more.end();
        if (!alone && told.at("counters").at("shared") != 1) throw Broken("it was not attached");
        // The median, so that the two iterations in which it learns do not count; the whole job's time, below, has them.
        times.iteration_ms.push_back(told.at("iteration_seconds_median").get<double>() * 1e3);
        times.seconds.push_back(told.at("seconds").get<double>());
        times.processor_seconds.push_back(job.processor_seconds());
    } catch (const std::exception& error) {
        std::string said;
        std::getline(std::ifstream(log), said);
        throw Broken(std::string("salus-job: ") + error.what() + ": " + said);
    }
}

void add_ratio(Table& table, const std::string& name, const std::vector<double>& with, const std::vector<double>& without,
               double target) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < with.size(); ++i) ratios.push_back(with[i] / without[i]);
    const double ratio = median(with) / median(without);
    table.push_back({name, text("%.4f", ratio), spread("%.4f", ratios), target > 0 ? text("<= %g", target) : "",
                     target > 0 ? verdict(ratio <= target) : ""});
}

void measure_alone(const Options& options, Scratch& scratch, Table& table) {
    Service service(options.salusd, scratch, {});
    JobTimes with, profiled, without;
    const int rounds = options.quick ? 2 : 9;
    for (int i = 0; i < rounds; ++i) {
        run_job(options, scratch, {}, with);
        run_job(options, scratch, {"--alone"}, without);
        run_job(options, scratch, {"--profile-known"}, profiled);
    }
    std::printf("alone: ms an iteration: shared %.3f (%s), without Salus %.3f (%s), shared and profiled %.3f (%s)\n",
                median(with.iteration_ms), spread("%.3f", with.iteration_ms).c_str(), median(without.iteration_ms),
                spread("%.3f", without.iteration_ms).c_str(), median(profiled.iteration_ms),
                spread("%.3f", profiled.iteration_ms).c_str());
    const auto add = [&](const std::string& who, const JobTimes& times) {
        add_ratio(table, who + ": time of an iteration", times.iteration_ms, without.iteration_ms, 1.01);
        add_ratio(table, "  time of the whole job", times.seconds, without.seconds, 0);
        add_ratio(table, "  processor time of the whole job", times.processor_seconds, without.processor_seconds, 0);
    };
    add("alone", with);
    add("alone, needs stated", profiled);
    service.show_warnings();
}

// ------------------------------------------------------------------------------------------------------------- main

struct Measurement {
    std::string_view name;
    void (*run)(const Options&, Scratch&, Table&);
};
constexpr std::array kMeasurements{Measurement{"boundary", measure_boundary}, Measurement{"hand-over", measure_hand_over},
                                   Measurement{"crowd", measure_crowd}, Measurement{"alone", measure_alone}};

[[noreturn]] void complain(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(2);
}

Options read_options(std::span<char*> arguments) {
    const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    Options options;
    options.salusd = beside / "salusd";
    options.job = beside / "salus-job";
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const std::string_view option = arguments[i];
        if (option == "--quick") {
            options.quick = true;
            continue;
        }
        if (i + 1 == arguments.size()) complain("unknown, or without a value: " + std::string(option));
        const std::string value = arguments[++i];
        if (option == "--salusd") options.salusd = value;
        else if (option == "--job") options.job = value;
        else if (option == "--only") options.only = value;
        else if (option == "--turns") {
            const auto read = std::from_chars(value.data(), value.data() + value.size(), options.turns);
            if (read.ec != std::errc{} || *read.ptr != '\0' || options.turns == 0)
                complain("--turns: not a count: " + value);
        } else complain("unknown option: " + std::string(option));
    }
    const auto named = [&](const Measurement& m) { return m.name == options.only; };
    if (!options.only.empty() && std::none_of(kMeasurements.begin(), kMeasurements.end(), named))
        complain("--only: boundary, hand-over, crowd or alone, not " + options.only);
    return options;
}

/// What somebody set for their own jobs is not to change ours.
void forget_environment() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view variable = *entry;
        if (variable.starts_with("SALUS_")) names.emplace_back(variable.substr(0, variable.find('=')));
    }
    for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = read_options({argv, static_cast<std::size_t>(argc)});
    forget_environment();
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, [](int) { interrupted = 1; });
    Table table;
    int status = 0;
    try {
        Scratch scratch;
        for (const Measurement& measurement : kMeasurements) {
            if (options.only.empty() || options.only == measurement.name) measurement.run(options, scratch, table);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "broken: %s\n", error.what());
        status = 1;
    }
    print(table);
    return status;
}
