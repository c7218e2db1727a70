#include "tests/standin/state.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace salus::standin {

State& state = *new State;
std::atomic<int> initialised_in = 0;

namespace {

const char* const kSymbols[] = {
#define SALUS_STANDIN_SYMBOL(member, symbol, parameters) symbol,
    SALUS_STANDIN_ALL_FUNCTIONS(SALUS_STANDIN_SYMBOL)
#undef SALUS_STANDIN_SYMBOL
};

/// Whether this call of a function is one that SALUS_STANDIN_FAIL names.
bool is_to_fail(Call call) {
    static std::atomic<int> calls[std::size(kSymbols)];
    static const char* const wanted = std::getenv("SALUS_STANDIN_FAIL") ? ::strdup(std::getenv("SALUS_STANDIN_FAIL")) : "";
    const auto index = static_cast<std::size_t>(call);
    const int count = ++calls[index];
    std::istringstream list(wanted);
    for (std::string item; std::getline(list, item, ',');) {
        const std::size_t colon = item.find(':');
        if (colon == std::string::npos || item.substr(0, colon) != kSymbols[index]) continue;
        const int first = std::atoi(item.c_str() + colon + 1);
        if (item.back() == '+' ? count >= first : count == first) return true;
    }
    return false;
}

}  // namespace

void* new_handle() { return reinterpret_cast<void*>(state.last_handle += 16); }

bool reuses_handles() {
    static const char* const text = std::getenv("SALUS_STANDIN_REUSE");
    return text && *text == '1';
}

void let_others_reuse(Entered& entered) {
    if (!reuses_handles()) return;
    entered.lock.unlock();
    entered.driver.unlock();
    ::usleep(300);
}

Entered::Entered(Call call, Needs needs, Locks locks) {
    const int initialised = initialised_in;
    const bool was_forked = initialised != 0 && initialised != ::getpid();
    if (is_to_fail(call)) status = kOutOfMemory;
    else if (was_forked || (needs != Needs::kNothing && initialised == 0)) status = kNotInitialised;
    if (status != kSuccess) return;  // in a child the locks may be held by a thread that is not there
    if (locks == Locks::kBoth) driver = std::unique_lock(state.driver_lock);
    lock = std::unique_lock(state.mutex);
    if (needs != Needs::kNothing && state.is_dead) status = kIllegalAddress;
    else if (needs == Needs::kContext && !current()) status = kInvalidContext;
    else if (needs == Needs::kContext && !current()->is_alive()) status = kContextIsDestroyed;
    else if (needs == Needs::kContext && is_lost(current()->device)) status = kUnknown;
}

}  // namespace salus::standin
