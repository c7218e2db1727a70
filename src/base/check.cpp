#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace salus {
namespace {

[[noreturn]] void print_and_abort(const std::string& message) {
    std::fprintf(stderr, "salus: %s\n", message.c_str());
    std::abort();
}

CheckHandler current_handler = print_and_abort;

}  // namespace

CheckHandler set_check_handler(CheckHandler handler) {
    CheckHandler old = current_handler;
    current_handler = handler;
    return old;
}

void throw_check_failure(const std::string& message) { throw CheckFailure(message); }

void check_failed(const char* file, int line, const char* condition, const char* why) {
    current_handler("check failed: " + std::string(why) + " (" + condition + ") at " + file + ":" + std::to_string(line));
    std::abort();
}

}  // namespace salus
