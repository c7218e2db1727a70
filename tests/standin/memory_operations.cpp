// Streams that wait for a word in memory, and write one. Another process may store to the word, so nobody tells the worker:
// it looks again and again.
#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr unsigned kWaitNor = 3, kWaitFlush = 1u << 30, kWriteWithoutBarrier = 1;

bool is_word(Address address, int access) {
    return address % sizeof(std::uint32_t) == 0 && may_access(address, sizeof(std::uint32_t), access);
}

std::atomic_ref<std::uint32_t> word_at(Address address) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address));
}

bool is_met(std::uint32_t word, std::uint32_t value, unsigned relation) {
    if (relation == kWaitGreaterOrEqual) return static_cast<std::int32_t>(word - value) >= 0;
    if (relation == kWaitEqual) return word == value;
    return relation == kWaitAnd ? (word & value) != 0 : ~(word | value) != 0;
}

}  // namespace

Status stream_wait_value(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_wait_value, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    const unsigned relation = flags & ~kWaitFlush;
    SALUS_STANDIN_REQUIRE(relation <= kWaitNor && is_word(word, PROT_READ));
    // Should the word go away, it is the run that says so.
    const auto is_ready = [=] { return !is_word(word, PROT_READ) || is_met(word_at(word), value, relation); };
    return submit(entered, *queue, {.touches = {{word, sizeof value}}, .is_ready = is_ready, .run = [=] {
                                        return is_word(word, PROT_READ);
                                    }});
}

Status stream_write_value(Stream stream, Address word, std::uint32_t value, unsigned flags) {
    SALUS_STANDIN_ENTER(stream_write_value, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    SALUS_STANDIN_REQUIRE(flags <= kWriteWithoutBarrier && is_word(word, PROT_WRITE));
    return submit(entered, *queue, {.touches = {{word, sizeof value}}, .run = [=] {
                                        if (!is_word(word, PROT_WRITE)) return false;
                                        word_at(word).store(value);
                                        return true;
                                    }});
}

// Their first versions drivers have switched off, unless the machine's administrator wants them.

Status stream_wait_value_v1(Stream, Address, std::uint32_t, unsigned) {
    SALUS_STANDIN_ENTER(stream_wait_value_v1, kContext);
    return kNotSupported;
}

Status stream_write_value_v1(Stream, Address, std::uint32_t, unsigned) {
    SALUS_STANDIN_ENTER(stream_write_value_v1, kContext);
    return kNotSupported;
}

}  // namespace salus::standin
