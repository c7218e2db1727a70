#include "service/job_mapping.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "os/file.h"
#include "os/trust.h"

namespace salus::service {

std::string why_no_job_mapping_in(const std::string& directory) {
    if (directory.empty()) return "";
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) return fmt::format("there is no directory '{}'", directory);
    // Whoever may write there could place a link under the name of a file.
    return os::why_distrusted(directory).value_or("");
}

std::string JobMapping::path_of(unsigned gpu) const { return fmt::format("{}/{}", directory_, gpu); }

Result<bool> JobMapping::write(unsigned gpu, const std::vector<std::uint32_t>& jobs) {
    const std::string text = jobs.empty() ? "" : fmt::format("{}\n", fmt::join(jobs, "\n"));
    const auto before = written_.find(gpu);  // none: an earlier service may have left a file
    if (before != written_.end() && before->second == text) return true;
    written_[gpu] = text;
    const std::string path = path_of(gpu);
    if (text.empty()) {
        ::unlink(path.c_str());
        return true;
    }
    // Under the name of its draft, the exporter does not take it for one of its files. It may run as another user.
    const Result<os::Written> written = os::replace_file_at_once(path, text);
    if (!written) return Error{written.error()};
    ::chmod(path.c_str(), 0644);
    return true;
}

void JobMapping::move_to(const std::string& directory) {
    if (directory == directory_) return;
    clear();
    directory_ = directory;
}

void JobMapping::clear() {
    for (const auto& [gpu, text] : written_) {
        if (!text.empty()) ::unlink(path_of(gpu).c_str());
    }
    written_.clear();
}

}  // namespace salus::service
