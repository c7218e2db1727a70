#include "client/use_marks.h"

#include <atomic>
#include <utility>

#include "os/clock.h"
#include "os/thread.h"

namespace salus::client {
namespace {

struct UseMark {
    std::atomic<unsigned> uses{0};         ///< nested; stored by its thread alone
    std::atomic<bool> is_of_thread{true};  ///< else the next thread takes it
    bool goes_back = false;                ///< when its use ends: its thread is about to end; for this thread alone
    UseMark* next = nullptr;
};
std::atomic<UseMark*> all_use_marks{nullptr};  ///< none is ever freed
constinit thread_local UseMark* own_use_mark = nullptr;

void return_use_mark() {
    UseMark* const mark = std::exchange(own_use_mark, nullptr);
    if (!mark) return;
    mark->uses.store(0, std::memory_order_release);
    mark->is_of_thread.store(false, std::memory_order_release);
}

constinit thread_local bool thread_ends = false;  ///< its objects do, and some may use the client even now

struct ReturnsUseMark {
    bool is_due = false;

    ~ReturnsUseMark() {
        thread_ends = true;
        return_use_mark();
    }
};
thread_local ReturnsUseMark returns_use_mark;  // from the thread's first use on

UseMark& take_use_mark() {
    UseMark* mark = all_use_marks.load();
    for (; mark; mark = mark->next) {
        bool taken = false;
        if (mark->is_of_thread.compare_exchange_strong(taken, true)) break;
    }
    if (!mark) {
        mark = new UseMark;
        mark->next = all_use_marks.load();
        while (!all_use_marks.compare_exchange_weak(mark->next, mark)) {}
    }
    own_use_mark = mark;
    mark->goes_back = thread_ends;
    if (!thread_ends) returns_use_mark.is_due = true;
    return *mark;
}

}  // namespace

void begin_use() {
    UseMark& mark = own_use_mark ? *own_use_mark : take_use_mark();
    mark.uses.store(mark.uses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler; Note [Who uses the client]
}

void end_use() {
    UseMark& mark = *own_use_mark;
    const unsigned left = mark.uses.load(std::memory_order_relaxed) - 1;
    mark.uses.store(left, std::memory_order_release);
    if (mark.goes_back && left == 0) [[unlikely]]
        return_use_mark();
}

bool wait_for_users(Duration at_most) {
    if (!os::barrier_in_all_threads()) return false;
    const std::uint64_t until = os::now_ns() + static_cast<std::uint64_t>(at_most.ns);
    for (const UseMark* mark = all_use_marks.load(); mark; mark = mark->next) {
        while (mark != own_use_mark && mark->uses.load(std::memory_order_acquire) != 0) {
            if (os::now_ns() > until) return false;
            os::sleep_for(microseconds(20));
        }
    }
    return true;
}

void forget_other_users() {
    for (UseMark* mark = all_use_marks.load(); mark; mark = mark->next) {
        if (mark == own_use_mark) continue;
        mark->uses = 0;
        mark->is_of_thread = false;
    }
}

std::size_t count_use_marks() {
    std::size_t count = 0;
    for (const UseMark* mark = all_use_marks.load(); mark; mark = mark->next) ++count;
    return count;
}

}  // namespace salus::client
