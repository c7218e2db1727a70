// What this process has open, for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace salus::os {

inline std::vector<int> open_descriptors() {
    std::vector<int> numbers;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        numbers.push_back(std::stoi(entry.path().filename().string()));
    return numbers;
}
/// Counted the same way each time, so that the difference of two is what was opened in between.
inline std::size_t count_open_descriptors() { return open_descriptors().size(); }

}  // namespace salus::os
