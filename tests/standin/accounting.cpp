#include "tests/standin/accounting.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace salus::standin {
namespace {

struct Entry {
    int pid;  ///< 0: a free row; written last, so that whoever is killed while writing leaves a free row
    Holding holding;
    std::uint64_t born;   ///< when the process started: its number may be used again
    std::uint64_t order;  ///< of being charged
};
struct Table {
    std::uint64_t next_order;
    std::size_t end;  ///< rows from here on were never used
    Entry entries[16384];
};

[[noreturn]] void fail(const std::string& what) {
    std::perror(("stand-in: " + what).c_str());
    std::abort();
}

/// The table, for this thread alone. A process that dies lets go of the lock.
class Locked {
public:
    Locked() : own_(own_mutex) {
        const char* path = std::getenv("SALUS_STANDIN_STATE");
        if (!path || !*path) return;
        file_ = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) fail(path);
        struct stat status {};
        if (::fstat(file_, &status) != 0) fail(path);
        if (static_cast<std::size_t>(status.st_size) < sizeof(Table) && ::ftruncate(file_, sizeof(Table)) != 0) fail(path);
        void* mapped = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (mapped == MAP_FAILED) fail(path);
        table_ = static_cast<Table*>(mapped);
    }
    ~Locked() {
        if (file_ < 0) return;
        ::munmap(table_, sizeof(Table));
        ::flock(file_, LOCK_UN);  // a child forked meanwhile has the descriptor, too
        ::close(file_);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    Table* operator->() { return table_; }

private:
    static Table own_table;
    static std::mutex own_mutex;
    std::lock_guard<std::mutex> own_;
    int file_ = -1;
    Table* table_ = &own_table;
};
Table Locked::own_table;
std::mutex Locked::own_mutex;

/// When a process was started, in ticks since boot; nothing if it is no more, or only waits to be reaped.
std::optional<std::uint64_t> birth_of(int pid) {
    const int file = ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    char text[1024];
    const ssize_t length = ::read(file, text, sizeof text - 1);
    ::close(file);
    if (length <= 0) return std::nullopt;
    text[length] = '\0';
    const char* field = std::strrchr(text, ')');  // the name before it may hold anything
    char run_state = 0;
    unsigned long long born = 0;
    if (!field || std::sscanf(field + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                              &run_state, &born) != 2)
        return std::nullopt;
    if (run_state == 'Z' || run_state == 'X') return std::nullopt;
    return born;
}

template <typename Do>
void for_each(Locked& table, Do&& act) {
    for (Row row = 0; row < table->end; ++row) {
        if (table->entries[row].pid != 0) act(table->entries[row]);
    }
}

void forget_the_dead(Locked& table) {
    std::map<int, std::optional<std::uint64_t>> births;
    for_each(table, [&](Entry& entry) {
        const auto [at, is_new] = births.try_emplace(entry.pid);
        if (is_new) at->second = birth_of(entry.pid);
        if (at->second != entry.born) entry.pid = 0;
    });
}

/// What a device's memory is used for, an entry each: a shared allocation is its creator's while that holds it, then that
/// of whoever imported it first.
std::vector<Entry> charged(Locked& table, int device) {
    forget_the_dead(table);
    std::vector<Entry> contexts;
    std::map<std::uint64_t, Entry> allocations;
    for_each(table, [&](const Entry& entry) {
        if (entry.holding.device != device) return;
        if (entry.holding.allocation == 0) return contexts.push_back(entry);
        const auto [at, is_new] = allocations.try_emplace(entry.holding.allocation, entry);
        const auto rank = [](const Entry& e) { return std::pair(!e.holding.created, e.order); };
        if (!is_new && rank(entry) < rank(at->second)) at->second = entry;
    });
    for (const auto& [allocation, entry] : allocations) contexts.push_back(entry);
    return contexts;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

int device_count() { return static_cast<int>(setting("SALUS_STANDIN_DEVICES", 1)); }
std::uint64_t total_memory(int device) {
    const char* text = std::getenv("SALUS_STANDIN_MEMORY");
    if (!text || !*text) return 1024 * kMiB;
    char* end = nullptr;
    std::uint64_t bytes = std::strtoull(text, &end, 10);
    for (; device > 0 && *end == ','; --device) bytes = std::strtoull(end + 1, &end, 10);
    return bytes;
}
std::uint64_t context_cost() { return setting("SALUS_STANDIN_CONTEXT", 64 * kMiB); }

std::array<unsigned char, 16> uuid_of(int device) {
    return {0x5a, 0x1d, 0x5a, 0x1d, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, static_cast<unsigned char>(device)};
}
std::string uuid_text(int device) {
    char text[64];
    std::snprintf(text, sizeof text, "GPU-5a1d5a1d-0000-4000-8000-%012x", static_cast<unsigned>(device));
    return text;
}

bool is_lost(int device) {
    const char* path = std::getenv("SALUS_STANDIN_STATE");
    return path && *path && ::access((std::string(path) + ".lost-" + std::to_string(device)).c_str(), F_OK) == 0;
}

void start() {
    Locked table;
    for_each(table, [](Entry& entry) {
        if (entry.pid == ::getpid()) entry.pid = 0;
    });
}

std::optional<Row> charge(const Holding& holding) {
    Locked table;
    std::uint64_t used = 0;
    for (const Entry& entry : charged(table, holding.device)) used += entry.holding.size;
    if (holding.created && used + holding.size > total_memory(holding.device)) return std::nullopt;
    Row row = 0;
    while (row < table->end && table->entries[row].pid != 0) ++row;
    if (row == std::size(table->entries)) fail("the table of holdings is full");
    Entry& entry = table->entries[row];
    entry.holding = holding;
    entry.born = birth_of(::getpid()).value_or(0);
    entry.order = table->next_order++;
    __atomic_store_n(&entry.pid, ::getpid(), __ATOMIC_RELEASE);
    table->end = std::max(table->end, row + 1);
    return row;
}

void drop(Row row) {
    Locked table;
    if (table->entries[row].pid == ::getpid()) table->entries[row].pid = 0;
}

Usage usage(int device) {
    Locked table;
    Usage usage;
    const std::vector<Entry> entries = charged(table, device);
    for (const Entry& entry : entries) {
        if (entry.holding.allocation == 0) usage.by_process[entry.pid] = 0;
    }
    for (const Entry& entry : entries) {
        usage.used += entry.holding.size;
        if (const auto process = usage.by_process.find(entry.pid); process != usage.by_process.end())
            process->second += entry.holding.size;
    }
    return usage;
}

}  // namespace salus::standin
