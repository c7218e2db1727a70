// A client's requests, as marks on its gate page: Note [Gates] in wire/gate_page.h. Any thread; no I/O, no waiting.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/gate_page.h"

namespace salus::attachment {

class RequestMarks {
public:
    explicit RequestMarks(GatePage& page) : page_(page) {}

    struct Mark {
        unsigned place = 0;
        std::uint32_t number = 0;
    };
    /// A request begins; then signal the service. Nothing if so many are in flight that one more changes nothing.
    std::optional<Mark> begin();
    /// The request's work on the device has ended.
    void end(const Mark& mark) {
        done_word(mark).store(mark.number, std::memory_order_release);
        give_back(mark);
    }
    /// The device stores the mark's number to this word when the request's work has ended; then give_back() instead of
    /// end().
    std::atomic<std::uint32_t>& done_word(const Mark& mark) { return page_.marks[mark.place].done; }
    void give_back(const Mark& mark) { taken_.fetch_and(~(std::uint64_t{1} << mark.place), std::memory_order_release); }

private:
    GatePage& page_;
    std::atomic<std::uint64_t> taken_{0};  ///< one bit a mark
};

}  // namespace salus::attachment
