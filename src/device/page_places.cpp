#include "device/page_places.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
namespace salus::device {

os::Descriptor open_page_file(const std::string& named) {
    const char* variable = std::getenv("SALUS_PAGE_DIR");
    const std::string first = !named.empty() ? named : variable ? variable : "";
    for (const std::string& directory : {first, std::string("/var/tmp"), std::string("/tmp")}) {
        if (directory.empty()) continue;
        os::Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (file || directory == first) return file;
    }
    return {};
}

void PagePlaces::look() { may_take_ = leave_ = spare_memory_() / 2; }

std::optional<PagePlaces::Place> PagePlaces::take(std::uint64_t size) {
    std::optional<Place> place = take_memory(size);
    if (!place) place = take_from_file(size);
    if (place) taken_[static_cast<std::size_t>(place->kind)] += size;
    return place;
}

std::optional<PagePlaces::Place> PagePlaces::take_memory(std::uint64_t size) {
    if (size > may_take_ || spare_memory_() < leave_ + size) return std::nullopt;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return std::nullopt;
    ::madvise(at, size, MADV_DONTFORK);
    ::madvise(at, size, MADV_HUGEPAGE);
    may_take_ -= size;
    return Place{static_cast<std::byte*>(at), size, PagePlace::kMemory};
}

/// The file stays mapped: a job that closes all descriptors that it finds does not lose what is in it.
std::optional<PagePlaces::Place> PagePlaces::take_from_file(std::uint64_t size) {
    if (!file_ || file_.lost()) {
        file_ = os::GuardedDescriptor(open_page_file(directory_));
        ++file_number_;
        file_end_ = 0;
    }
    const int file = file_.get();
    // The disk may fill up: who writes to a hole then is killed. So the blocks are there first.
    if (file < 0 || ::posix_fallocate(file, file_end_, static_cast<off_t>(size)) != 0) return std::nullopt;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, file_end_);
    if (at == MAP_FAILED) return std::nullopt;
    ::madvise(at, size, MADV_DONTFORK);
    return Place{static_cast<std::byte*>(at), size, PagePlace::kFile, file_number_,
                 std::exchange(file_end_, file_end_ + static_cast<std::int64_t>(size))};
}

void PagePlaces::give_back(const Place& place) {
    ::munmap(place.memory, place.size);
    std::uint64_t& taken = taken_[static_cast<std::size_t>(place.kind)];
    taken -= place.size;
    if (place.kind != PagePlace::kFile || place.file != file_number_) return;  // a lost file went with its last page
    const int file = file_.get();
    if (file < 0) return;
    ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.position, static_cast<off_t>(place.size));
    if (taken > 0) return;
    file_end_ = 0;
    if (::ftruncate(file, 0) != 0) file_.reset();
}

}  // namespace salus::device
