// Memory by the older interfaces: cuMemAlloc and the like, in blocks that are mapped from the start.

#include "tests/standin/state.h"

namespace salus::standin {
namespace {

constexpr std::uint64_t kPage = 4096;      ///< a block is charged in these
constexpr std::uint64_t kPitchUnit = 512;  ///< as on a real one

constexpr std::uint64_t rounded_up(std::uint64_t size, std::uint64_t unit) { return (size + unit - 1) / unit * unit; }

Status allocate_block(Address* start, std::size_t size) {
    SALUS_STANDIN_REQUIRE(start && size > 0);
    if (size > total_memory(current()->device)) return kOutOfMemory;
    const std::uint64_t taken = rounded_up(size, kPage);
    auto memory = create_memory(current()->device, taken, false);
    if (!memory) return kOutOfMemory;
    const auto place = reserve_addresses(taken, taken < kGranularity ? kPage : kGranularity, 0);
    if (!place || !show(*place, *memory, PROT_READ | PROT_WRITE)) return kOutOfMemory;
    state.mappings[*place] = {std::move(memory), PROT_READ | PROT_WRITE, current()};
    *start = *place;
    return kSuccess;
}

bool is_block(Address start) {
    const auto found = state.mappings.find(start);
    return found != state.mappings.end() && found->second.owner && !found->second.is_leaving;
}

}  // namespace

void free_block(Address start) {
    const auto found = state.mappings.find(start);
    const std::uint64_t size = found->second.memory->size;
    ::munmap(pointer(start), size);
    state.mappings.erase(found);
    if (is_touched(start, size)) break_down("a block was freed under work in flight", {start, size});
}

Status allocate(Address* start, std::size_t size) {
    SALUS_STANDIN_ENTER(allocate, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    return allocate_block(start, size);
}

/// Its addresses have 32 bits, and there is no such memory.
Status allocate_v1(unsigned* start, unsigned size) {
    SALUS_STANDIN_ENTER(allocate_v1, kContext);
    SALUS_STANDIN_REQUIRE(start && size > 0);
    return kOutOfMemory;
}

Status allocate_pitch(Address* start, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element_size) {
    SALUS_STANDIN_ENTER(allocate_pitch, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    SALUS_STANDIN_REQUIRE(start && pitch && width > 0 && height > 0);
    SALUS_STANDIN_REQUIRE(element_size == 4 || element_size == 8 || element_size == 16);
    const std::uint64_t row = rounded_up(width, kPitchUnit);
    if (height > total_memory(current()->device) / row) return kOutOfMemory;
    SALUS_STANDIN_TRY(allocate_block(start, row * height));
    *pitch = row;
    return kSuccess;
}

Status allocate_managed(Address* start, std::size_t size, unsigned flags) {
    SALUS_STANDIN_ENTER(allocate_managed, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    SALUS_STANDIN_REQUIRE(flags == 1 || flags == 2);
    return allocate_block(start, size);
}

Status free_memory(Address start) {
    SALUS_STANDIN_ENTER(free_memory, kContext);
    SALUS_STANDIN_TRY(refuse_unsafe());
    if (start == 0) return kSuccess;
    SALUS_STANDIN_REQUIRE(is_block(start));
    SALUS_STANDIN_TRY(drain(entered, *state.mappings.at(start).owner));
    SALUS_STANDIN_REQUIRE(is_block(start));  // another thread may have freed it meanwhile
    free_block(start);
    return kSuccess;
}

/// The block is there at once; a real one's is, too, for work on the stream.
Status allocate_async(Address* start, std::size_t size, Stream stream) {
    SALUS_STANDIN_ENTER(allocate_async, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    if (queue->capture) return kNotSupported;  // memory nodes of graphs
    SALUS_STANDIN_TRY(refuse_unsafe());
    return allocate_block(start, size);
}

Status free_async(Address start, Stream stream) {
    SALUS_STANDIN_ENTER(free_async, kContext);
    SALUS_STANDIN_FIND(queue, stream);
    if (queue->capture) return kNotSupported;
    SALUS_STANDIN_REQUIRE(is_block(start));
    state.mappings.at(start).is_leaving = true;
    return submit(entered, *queue, {.run = [=] {
                      free_block(start);
                      return true;
                  }});
}

}  // namespace salus::standin
