#include "attachment/request_marks.h"

namespace salus::attachment {

std::optional<RequestMarks::Mark> RequestMarks::begin() {
    static_assert(GatePage::kMarks == 64, "one bit a mark");
    for (unsigned place = 0; place < GatePage::kMarks; ++place) {
        const std::uint64_t bit = std::uint64_t{1} << place;
        RequestMark& mark = page_.marks[place];
        // A mark whose number the device has not stored yet is another request's.
        if ((taken_.load(std::memory_order_relaxed) & bit) != 0 || mark.in_flight()) continue;
        if ((taken_.fetch_or(bit, std::memory_order_acquire) & bit) != 0) continue;
        if (mark.in_flight()) {  // another thread had it meanwhile
            taken_.fetch_and(~bit, std::memory_order_release);
            continue;
        }
        const std::uint32_t number = mark.begun.load(std::memory_order_relaxed) + 1;
        mark.begun.store(number, std::memory_order_release);
        return Mark{place, number};
    }
    return std::nullopt;
}

}  // namespace salus::attachment
