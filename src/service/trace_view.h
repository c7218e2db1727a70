// What a user may see of the trace, and its way there: a stream of packets, so that a large trace costs the service little
// memory, and nobody waits for a slow reader.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptor.h"

namespace salus::service {

/// The trace as `uid` may see it. If `only_numbers`, other users and their jobs have numbers in place of names; a replay
/// decides the same, because the engine only compares users, and treats root alone as special.
class TraceView {
public:
    TraceView(unsigned uid, bool only_numbers) : uid_(uid), only_numbers_(only_numbers) {}

    /// The text to show for the next line, which has no newline. A note with a job's name is held back until the attachment
    /// that follows tells whose it is.
    std::string of(std::string_view line);

private:
    unsigned uid_;
    bool only_numbers_;
    std::string note_;
    std::map<std::string, std::uint32_t, std::less<>> others_;
};

/// Sends files as a view of their lines. The files may be replaced or grow meanwhile.
class TraceStream {
public:
    /// `to` is the sending end of a pair of sockets. Files that are not there are left out. `last_bytes`: only the lines in
    /// this much of the end of all files together; 0: all.
    TraceStream(const std::vector<std::string>& files, TraceView view, os::Descriptor to, std::uint64_t last_bytes = 0);

    int socket() const { return to_.get(); }
    /// Sends what the reader can take now, up to a limit. False: all is sent, or the reader is gone.
    bool go_on();

    static constexpr std::size_t kPacketMax = 32 << 10;

private:
    bool read_more();
    void skip_all_but(std::int64_t last_bytes);

    struct Source {
        os::Descriptor file;
        std::int64_t left = 0;  ///< bytes that were there when the stream began
    };
    std::vector<Source> sources_;
    std::size_t current_ = 0;
    TraceView view_;
    os::Descriptor to_;
    std::string unfinished_;    ///< the start of a line
    bool in_mid_line_ = false;  ///< it began somewhere in a line, which is left out
    std::string ready_;         ///< to be sent
};

}  // namespace salus::service
