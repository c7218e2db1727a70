#include "cli/live_turns.h"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace salus::cli {
namespace {

using nlohmann::json;

/// Turns that follow each other at most this soon in a lane are drawn as one.
constexpr Duration kSameTurn = milliseconds(1);

/// Of a line that begins with "@1500000 ".
std::optional<Instant> time_in(std::string_view line) {
    if (!line.starts_with('@')) return std::nullopt;
    const auto ns = parse_integer(line.substr(1, line.find(' ') - 1));
    return ns ? std::optional(Instant{*ns}) : std::nullopt;
}

}  // namespace

/// "  grant client=3 lane=0 handover=1": a word, and numbers with names.
struct LiveTurns::Line {
    explicit Line(std::string_view text) : words(split(trim(text), ' ')) {}

    std::string_view word(std::size_t index) const { return index < words.size() ? words[index] : std::string_view{}; }
    std::optional<std::uint32_t> number(std::string_view name) const {
        for (const std::string_view one : words) {
            if (one.size() <= name.size() || !one.starts_with(name) || one[name.size()] != '=') continue;
            const auto value = parse_integer(one.substr(name.size() + 1));
            if (value && *value >= 0 && *value <= 0xffffffffLL) return static_cast<std::uint32_t>(*value);
        }
        return std::nullopt;
    }

    std::vector<std::string_view> words;
};

void LiveTurns::Kind::add(const Span& span) {
    const bool is_untold = ended > told;
    if (is_untold && !spans.empty() && spans.back().lane == span.lane && spans.back().job == span.job &&
        span.start - spans.back().end <= kSameTurn) {
        spans.back().end = span.end;
        return;
    }
    spans.push_back(span);
    ++ended;
    if (spans.size() > kSpansMax) spans.pop_front();
}

void LiveTurns::Kind::drop_before(Instant oldest) {
    while (!spans.empty() && spans.front().end < oldest) spans.pop_front();
}

std::size_t LiveTurns::read(std::string_view text, Instant now) {
    if (last_ != Instant{} && !joins(text)) gap(last_);
    const Instant known = last_;
    bool is_new = false;
    std::size_t bytes = 0;
    for (const std::string_view raw : split(text, '\n')) {
        if (raw.empty()) continue;
        if (raw.starts_with('@')) {
            const auto at = time_in(raw);
            is_new = at && *at > known;
            if (!is_new) continue;
            last_ = *at;
            event(Line(raw), last_);
        } else if (raw.starts_with('#')) {
            const Line line(raw);
            noted_client_ = line.number("client").value_or(0);
            noted_job_ = line.number("job").value_or(0);
        } else if (is_new) {
            action(Line(raw), last_);
        }
        if (is_new) bytes += raw.size() + 1;
    }
    for (Kind* kind : {&turns_, &requests_, &gates_}) kind->drop_before(now - kKept);
    return bytes;
}

bool LiveTurns::joins(std::string_view text) const {
    const std::size_t start = text.starts_with('@') ? 0 : text.find("\n@") + 1;
    const auto first = time_in(text.substr(start));
    return !first || *first <= last_;
}

void LiveTurns::look_at(const Status& status, Instant now) {
    for (const JobStatus& job : status.jobs) {
        if (job.client == kNoClient) continue;
        Present& client = present_[static_cast<std::uint32_t>(job.client)];
        client.job = job.job;
        if (client.running || job.state != JobState::kRunning || !job.activity) continue;
        const LaneId lane = job.activity->lane;
        client.lane = lane == kNoLane ? kProfilingRow : static_cast<std::uint32_t>(lane);
        client.running = client.holds = true;
        client.since = now;
    }
}

/// The reader was slower than the trace: nobody knows what ran in between.
void LiveTurns::gap(Instant last) {
    for (auto& [id, client] : present_) {
        end_turn(client, last, true);
        end_request(client, last);
    }
    if (gates_since_) gates_.add({0, 0, *gates_since_, last});
    gates_since_.reset();
}

void LiveTurns::event(const Line& line, Instant at) {
    const auto id = line.number("client");
    if (!id) return;
    const std::string_view what = line.word(1);
    if (what == "attach") {
        present_[*id] = {};
        if (noted_client_ == *id) present_[*id].job = noted_job_;
    }
    Present& client = present_[*id];
    if (what == "boundary") end_turn(client, at, true);
    if (what == "idle") end_turn(client, at, false);
    if (what == "want" && client.holds && !client.running) {
        client.running = true;  // it had kept its grant while it idled
        client.since = at;
    }
    if (what == "requests") {
        const bool in_flight = line.number("in_flight").value_or(0) > 0;
        if (!in_flight) end_request(client, at);
        else if (!client.request_since) client.request_since = at;
    }
    if (what == "leave" || what == "die") {
        end_turn(client, at, true);
        end_request(client, at);
        present_.erase(*id);
    }
}

void LiveTurns::action(const Line& line, Instant at) {
    const std::string_view what = line.word(0);
    if (what == "close-gates" && !gates_since_) gates_since_ = at;
    if (what == "open-gates" && gates_since_) {
        gates_.add({0, 0, *gates_since_, at});
        gates_since_.reset();
    }
    const auto id = line.number("client");
    if (!id) return;
    Present& client = present_[*id];
    if (what == "grant") {
        client.running = client.holds = true;
        client.asked = false;
        client.lane = line.number("lane").value_or(kProfilingRow);
        client.since = at;
    }
    if (what == "yield" || what == "revoke") client.asked = true;
}

void LiveTurns::end_turn(Present& client, Instant at, bool grant_returned) {
    if (client.running) turns_.add({client.lane, client.job, client.since, at});
    client.running = false;
    if (grant_returned || client.asked) client.holds = false;
}

void LiveTurns::end_request(Present& client, Instant at) {
    if (client.request_since) requests_.add({client.lane, client.job, *client.request_since, at});
    client.request_since.reset();
}

json LiveTurns::json_of(Instant epoch, Instant now, bool all) const {
    const auto ms = [&](Instant at) { return static_cast<double>((at - epoch).ns / 10'000) / 100; };
    const auto row = [&](const Span& span, bool open) {
        const json lane = span.lane == kProfilingRow ? json(-1) : json(span.lane);
        return json{lane, span.job, ms(span.start), open ? json(nullptr) : json(ms(span.end))};
    };
    json out = {{"now", ms(now)}, {"all", all}};
    for (const auto& [name, kind] : {std::pair{"turns", &turns_}, {"requests", &requests_}, {"gates", &gates_}}) {
        json& rows = out[name] = json::array();
        const auto fresh = static_cast<std::size_t>(all ? kind->spans.size() : kind->ended - kind->told);
        for (std::size_t i = kind->spans.size() - std::min(fresh, kind->spans.size()); i < kind->spans.size(); ++i)
            rows.push_back(row(kind->spans[i], false));
    }
    for (const auto& [id, client] : present_) {
        if (client.running) out["turns"].push_back(row({client.lane, client.job, client.since, {}}, true));
        if (client.request_since) out["requests"].push_back(row({client.lane, client.job, *client.request_since, {}}, true));
    }
    if (gates_since_) out["gates"].push_back(row({0, 0, *gates_since_, {}}, true));
    return out;
}

json LiveTurns::news(Instant epoch, Instant now) {
    json out = json_of(epoch, now, std::exchange(is_new_, false));
    for (Kind* kind : {&turns_, &requests_, &gates_}) kind->told = kind->ended;
    return out;
}

json LiveTurns::everything(Instant epoch, Instant now) const { return json_of(epoch, now, true); }

}  // namespace salus::cli
