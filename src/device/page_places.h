// Places on the host for memory that is paged out of a GPU: memory of this process, and behind that a file.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "os/guarded_descriptor.h"
#include "os/spare_memory.h"
#include "wire/control_page.h"

namespace salus::device {

/// A nameless file in the first of these directories that can have one: `named`, or if that is empty $SALUS_PAGE_DIR; else
/// /var/tmp and /tmp. Only that one if it is named. The descriptor may be empty.
os::Descriptor open_page_file(const std::string& named = {});

class PagePlaces {
public:
    /// `directory`: of the file; empty: as open_page_file() chooses.
    explicit PagePlaces(std::string directory, std::uint64_t (*spare_memory)() = os::spare_memory)
        : directory_(std::move(directory)), spare_memory_(spare_memory) {}
    PagePlaces(const PagePlaces&) = delete;
    PagePlaces& operator=(const PagePlaces&) = delete;

    struct Place {
        std::byte* memory = nullptr;
        std::uint64_t size = 0;
        PagePlace kind{};
        std::uint64_t file = 0;     ///< its number, if it is in one ...
        std::int64_t position = 0;  ///< ... and where
    };
    /// Before several take(): looks how much memory there is. No more than half of what the process could have is taken,
    /// because the programs of the machine want the rest; less if others take from it at the same time.
    void look();
    /// Nothing if there is no place.
    std::optional<Place> take(std::uint64_t size);
    void give_back(const Place& place);
    /// Bytes in use, by kind.
    std::array<std::uint64_t, kPagePlaces> taken() const { return taken_; }

private:
    std::optional<Place> take_memory(std::uint64_t size);
    std::optional<Place> take_from_file(std::uint64_t size);

    std::string directory_;
    std::uint64_t (*spare_memory_)();
    os::GuardedDescriptor file_;
    std::uint64_t file_number_ = 0;
    std::int64_t file_end_ = 0;
    std::uint64_t may_take_ = 0;  ///< of memory ...
    std::uint64_t leave_ = 0;     ///< ... and so much must remain
    std::array<std::uint64_t, kPagePlaces> taken_{};
};

}  // namespace salus::device
