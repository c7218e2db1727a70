// Who ran when in the last minute, read from the lines of a trace as they come. Pure; it replays nothing, so it may begin
// anywhere in a trace.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/ids.h"
#include "base/time.h"
#include "status/status.h"

namespace salus::cli {

/// A turn, a request in flight, or closed gates.
struct Span {
    std::uint32_t lane = 0;  ///< of a turn; kProfilingRow: it has none
    std::uint32_t job = 0;   ///< 0: not known, or gates
    Instant start;
    Instant end;
};
inline constexpr std::uint32_t kProfilingRow = 0xffffffffu;

class LiveTurns {
public:
    static constexpr Duration kKept = seconds(60);
    static constexpr std::size_t kSpansMax = 20'000;  ///< of each kind

    /// The end of the trace. What was there the last time is passed over. Returns how many bytes were new.
    std::size_t read(std::string_view text, Instant now);
    /// Whether this end of the trace begins before what is known ends, so that nothing is missing in between.
    bool joins(std::string_view text) const;
    /// What the status says of the clients, for what happened before the lines that are read. Call it before read(), with a
    /// status that is older than the trace.
    void look_at(const Status& status, Instant now);

    /// What has ended since the last call, and what has not ended yet. Milliseconds since `epoch`.
    nlohmann::json news(Instant epoch, Instant now);
    /// All that is kept.
    nlohmann::json everything(Instant epoch, Instant now) const;

private:
    struct Present {
        std::uint32_t job = 0;
        std::uint32_t lane = kProfilingRow;
        bool running = false;
        bool holds = false;
        bool asked = false;  ///< to give its grant back
        Instant since;
        std::optional<Instant> request_since;
    };
    struct Kind {
        std::deque<Span> spans;  ///< in the order of their ends
        std::uint64_t ended = 0, told = 0;

        void add(const Span& span);
        void drop_before(Instant oldest);
    };
    struct Line;

    void event(const Line& line, Instant at);
    void action(const Line& line, Instant at);
    void end_turn(Present& client, Instant at, bool grant_returned);
    void end_request(Present& client, Instant at);
    void gap(Instant last);
    nlohmann::json json_of(Instant epoch, Instant now, bool all) const;

    std::map<std::uint32_t, Present> present_;  ///< by client
    std::optional<Instant> gates_since_;
    Kind turns_, requests_, gates_;
    Instant last_{};
    bool is_new_ = true;  ///< nobody was told anything yet
    std::uint32_t noted_client_ = 0, noted_job_ = 0;
};

}  // namespace salus::cli
