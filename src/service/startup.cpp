#include "service/startup.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "base/text.h"
#include "os/file.h"
#include "os/lock.h"
#include "os/places.h"
#include "os/socket.h"
#include "os/trust.h"

namespace salus::service {

std::optional<std::string> why_distrusted_in(const std::string& directory) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        if (!entry.is_regular_file(error)) continue;
        if (auto why = os::why_distrusted(entry.path().string())) return why;
    }
    return std::nullopt;
}

std::string directory_of(const Options& options, DeviceId device) {
    return device == DeviceId{0} ? options.state : options.state + "/device-" + std::to_string(index_of(device));
}

Result<bool> make_directories(const Options& options, std::size_t devices) {
    for (std::size_t i = 1; i < devices; ++i) {
        const std::string directory = directory_of(options, DeviceId{static_cast<std::uint32_t>(i)});
        if (Result<bool> made = os::make_private_directory(directory); !made) return made;
        if (const auto why = why_distrusted_in(directory)) return Error{*why};
    }
    return true;
}

std::string why_too_much(Bytes capacity, Bytes total, const device::Traits& device) {
    if (capacity <= total) return {};
    return "--capacity: the " + std::string(device.is_host ? "machine" : "GPU") + " has " + format_bytes(total) + "; got '" +
           format_bytes(capacity) + "'";
}

Result<os::Descriptor> lock_socket(const std::string& socket, Duration patience) {
    Result<os::Descriptor> lock = os::open_lock(socket + ".lock");
    const auto listens = [&] { return os::connect_to(socket).ok(); };
    if (lock && !os::take_lock(lock.value().get(), patience, listens)) return Error{"another service runs at " + socket};
    return lock;
}

Result<os::Descriptor> lock_state(const Options& options) {
    Result<os::Descriptor> lock = os::open_lock(os::lock_in(options.state));
    if (!lock) return lock;
    const int file = lock.value().get();
    const auto socket_of_holder = [file] {
        std::array<char, os::kSocketPathMax> path{};
        const ssize_t size = ::pread(file, path.data(), path.size(), 0);
        return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    };
    const auto listens = [&] {
        const std::string socket = socket_of_holder();
        return !socket.empty() && os::connect_to(socket);
    };
    if (os::take_lock(file, kLockPatience, listens)) return lock;
    const std::string socket = socket_of_holder();
    if (socket == options.socket) return Error{"another service runs at " + socket};
    return Error{options.state + " is in use by another service, at " + socket +
                 "; --state or SALUS_STATE names another directory"};
}

Result<bool> name_socket_in(int state_lock, const std::string& socket) {
    if (::ftruncate(state_lock, 0) == 0 && os::write_all_at(state_lock, std::as_bytes(std::span(socket)), 0)) return true;
    return Error{std::string("the lock of the state directory: ") + std::strerror(errno)};
}

}  // namespace salus::service
