// The result of an operation that can fail for ordinary reasons: a value, or one line that says what went wrong.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace salus {

struct Error {
    std::string message;
};

template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit on purpose, as in `return value;`
    Result(Error error) : state_(std::move(error)) {}  // NOLINT

    bool ok() const { return std::holds_alternative<T>(state_); }
    explicit operator bool() const { return ok(); }

    const T& value() const& {
        SALUS_CHECK(ok(), "value of a failed result");
        return std::get<T>(state_);
    }
    T& value() & {
        SALUS_CHECK(ok(), "value of a failed result");
        return std::get<T>(state_);
    }
    T&& value() && {
        SALUS_CHECK(ok(), "value of a failed result");
        return std::get<T>(std::move(state_));
    }
    const std::string& error() const {
        SALUS_CHECK(!ok(), "error of a good result");
        return std::get<Error>(state_).message;
    }

private:
    std::variant<T, Error> state_;
};

}  // namespace salus
