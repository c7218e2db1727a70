#include "os/environment.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

namespace salus::os {

void set_variables(const std::vector<std::pair<std::string, std::string>>& variables) {
    const auto is_set_now = [&](std::string_view entry) {
        const std::string_view name = entry.substr(0, entry.find('='));
        return std::ranges::any_of(variables, [&](const auto& variable) { return variable.first == name; });
    };
    std::vector<char*> entries;
    for (char** entry = environ; entry && *entry; ++entry) {
        if (!is_set_now(*entry)) entries.push_back(*entry);
    }
    for (const auto& [name, value] : variables) entries.push_back(::strdup((name + "=" + value).c_str()));
    entries.push_back(nullptr);
    static char** ours = nullptr;  // never freed, like the one before
    ours = new char*[entries.size()];
    std::ranges::copy(entries, ours);
    std::atomic_ref<char**>(environ).store(ours, std::memory_order_release);
}

}  // namespace salus::os
