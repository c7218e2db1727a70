// The store of the host device, and what both stores share.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "tests/concurrency/store.h"

namespace salus::concurrency {

thread_local Place place;

void fail(const char* format, ...) {
    char line[512];
    int length = std::snprintf(line, sizeof line,
                               "seed %llu, thread %d, iteration %d, %s: ", static_cast<unsigned long long>(place.seed),
                               place.thread, place.iteration, place.step);
    std::va_list arguments;
    va_start(arguments, format);
    length += std::vsnprintf(line + length, sizeof line - static_cast<std::size_t>(length) - 1, format, arguments);
    va_end(arguments);
    const std::size_t end = std::min(static_cast<std::size_t>(length), sizeof line - 2);
    line[end] = '\n';
    static_cast<void>(!::write(STDERR_FILENO, line, end + 1));
    ::_exit(1);
}

void must(salus_status status, const char* call) {
    if (status != SALUS_OK && status != SALUS_NO_SERVICE) fail("%s: %d, %s", call, status, salus_error_text());
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t n) {
    std::uint64_t z = seed + n * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

namespace {

/// Memory moves in pages: four words in each are enough to see it, and leave time for more programs.
constexpr std::size_t kStride = 1024 / sizeof(std::uint64_t);

class HostStore : public Store {
public:
    explicit HostStore(salus_client* client) : client_(client) {}

    Block allocate(const Request& request) override {
        Block block{.size = request.size, .seed = request.seed};
        block.start = salus_alloc(client_, request.size, request.kind);
        if (block.start) return block;
        ++denied_;
        block.is_native = true;
        if (::posix_memalign(&block.start, 64, block.size) != 0) fail("out of memory");
        return block;
    }

    void write(Block& block, unsigned) override {
        const std::uint64_t before = mix(block.seed, block.version);
        const std::uint64_t after = mix(block.seed, ++block.version);
        auto* const words = static_cast<std::uint64_t*>(block.start);
        for (std::size_t i = 0; i < block.size / sizeof *words; i += kStride) {
            if (block.version > 1 && words[i] != mix(before, i)) tell(block, i, mix(before, i));
            words[i] = mix(after, i);
        }
    }

    std::uint64_t read(const Block& block) override {
        const std::uint64_t pattern = mix(block.seed, block.version);
        const auto* const words = static_cast<const std::uint64_t*>(block.start);
        std::uint64_t digest = pattern;
        for (std::size_t i = 0; i < block.size / sizeof *words; i += kStride) {
            if (words[i] != mix(pattern, i)) tell(block, i, mix(pattern, i));
            digest = (digest ^ words[i]) * 0x100000001b3ull;
        }
        return digest;
    }

    void free(Block& block) override {
        if (block.is_native) ::free(block.start);
        else salus_free(client_, block.start);
        block.start = nullptr;
    }

    void corrupt(Block& block) override { ++static_cast<std::uint64_t*>(block.start)[block.size / 16 / kStride * kStride]; }

    bool can_fork() const override { return true; }

private:
    [[noreturn]] void tell(const Block& block, std::size_t word, std::uint64_t wanted) {
        const std::uint64_t found = static_cast<const std::uint64_t*>(block.start)[word];
        bool is_old = false;
        for (std::uint64_t version = 1; version < block.version; ++version) {
            is_old = is_old || found == mix(mix(block.seed, version), word);
        }
        fail("block %p of %zu KiB, version %llu, word %zu: found %016llx, not %016llx%s (%s)", block.start, block.size >> 10,
             static_cast<unsigned long long>(block.version), word, static_cast<unsigned long long>(found),
             static_cast<unsigned long long>(wanted), is_old ? ", a lost write" : "",
             salus_in_lane(client_, block.start) ? "in the lane" : "not in the lane");
    }

    salus_client* client_;
};

}  // namespace

std::unique_ptr<Store> make_host_store(salus_client* client) { return std::make_unique<HostStore>(client); }

}  // namespace salus::concurrency
