// The trace on disk: every event and decision, in limited space.
//
// It consists of pieces: `trace` is being written, `trace.1` is the one before, and so on. A piece ends when it is full,
// when it is a day old and when the service ends; then all are renamed to the next number. Older pieces are removed when all
// together would exceed the limit, or after 30 days. The first piece of a service begins with a header, which a replay
// needs.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "core/trace.h"
#include "os/descriptor.h"

namespace salus::service {

class TraceFile {
public:
    /// Starts a new trace in this directory. If this or a later write fails, recording stops, which is logged once.
    TraceFile(std::string directory, Bytes limit, const std::string& header);
    ~TraceFile() { flush(); }

    /// Only stores the record. flush() turns it into text, when nobody waits for the service.
    void record(const Event& event, Instant at, std::span<const Action> actions);
    /// Adds a client's name for the reader of the trace.
    void name_client(ClientId client, std::uint32_t job, std::string_view name);
    /// Writes the stored records.
    void flush();
    /// From the next piece on.
    void set_limit(Bytes limit) { limit_ = limit; }
    std::size_t pending() const { return pending_.size(); }
    bool has_pending() const { return !pending_.empty(); }

    bool recording() const { return static_cast<bool>(file_); }
    const std::string& current_path() const { return current_; }
    std::string previous_path() const { return piece(1); }
    /// The files of this trace that there may be, oldest first.
    std::vector<std::string> pieces() const;
    Bytes written() const { return written_; }

    static constexpr int kPiecesPerLimit = 8;
    static constexpr unsigned kPiecesMax = 200;  ///< a service that is restarted often makes small ones
    static constexpr Duration kPieceSpan = minutes(24 * 60);
    static constexpr Duration kKeptFor = minutes(30 * 24 * 60);

private:
    struct Record {
        Event event;
        Instant at;
        std::vector<Action> actions;
    };

    std::string piece(unsigned number) const { return current_ + "." + std::to_string(number); }
    Bytes piece_max() const { return {limit_.count / kPiecesPerLimit}; }
    std::vector<unsigned> older_pieces() const;
    bool rename_pieces();
    void remove_surplus() const;
    bool open();
    void begin_piece();
    void write(std::string_view text);

    std::string current_;
    Bytes limit_;
    os::Descriptor file_;
    std::vector<std::variant<Record, std::string>> pending_;
    Bytes written_;             ///< to the current piece
    unsigned older_ = 0;        ///< pieces of this trace, without the current one
    Instant ends_at_ = kNever;  ///< the current piece
};

}  // namespace salus::service
