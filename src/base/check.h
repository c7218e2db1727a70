// Assertions that stay on in every build.
//
// A failed SALUS_CHECK is a bug in Salus. In our own processes it prints one line and aborts; the swarm of the
// simulator and the tests install a handler that throws instead, so that they can name the seed.
#pragma once

#include <stdexcept>
#include <string>

namespace salus {

struct CheckFailure : std::logic_error {
    using std::logic_error::logic_error;
};

using CheckHandler = void (*)(const std::string& message);

/// Replaces the handler and returns the old one. A handler must not return. Not thread-safe: call it at start-up.
CheckHandler set_check_handler(CheckHandler handler);

/// A handler that throws CheckFailure.
[[noreturn]] void throw_check_failure(const std::string& message);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

}  // namespace salus

#define SALUS_CHECK(condition, why)                                     \
    do {                                                                \
        if (!(condition)) [[unlikely]]                                  \
            ::salus::check_failed(__FILE__, __LINE__, #condition, why); \
    } while (false)
