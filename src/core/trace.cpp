#include "core/trace.h"

#include <charconv>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"

namespace salus {
namespace {

// Note [Fields]
// Each kind of event and action is described once, by a name and the tuple of its fields. Writing and reading are both
// made from that, so they cannot disagree.

template <typename T, typename Member>
struct Field {
    std::string_view name;
    Member T::*member;
    bool optional = false;  ///< added later: older traces lack it, and it is written only if it differs from the default
};
template <typename T, typename Member>
Field(const char*, Member T::*) -> Field<T, Member>;
template <typename T, typename Member>
Field(const char*, Member T::*, bool) -> Field<T, Member>;

template <typename T>
struct Schema;

#define SALUS_SCHEMA(type, word, ...)                           \
    template <>                                                 \
    struct Schema<type> {                                       \
        using Self = type;                                      \
        static constexpr std::string_view name = word;          \
        static constexpr auto fields = std::tuple(__VA_ARGS__); \
    };
#define SALUS_FIELD(member) \
    Field { #member, &Self::member }
#define SALUS_OPTIONAL(member) \
    Field { #member, &Self::member, true }

SALUS_SCHEMA(event::Announce, "announce", SALUS_FIELD(job), SALUS_FIELD(persistent), SALUS_FIELD(runs), SALUS_FIELD(waited),
             SALUS_OPTIONAL(user))
SALUS_SCHEMA(event::Withdraw, "withdraw", SALUS_FIELD(job))
SALUS_SCHEMA(event::Attach, "attach", SALUS_FIELD(client), SALUS_FIELD(user), SALUS_FIELD(priority), SALUS_FIELD(weight),
             SALUS_FIELD(pageable), SALUS_FIELD(iterations_total), SALUS_FIELD(iteration_time), SALUS_FIELD(profiled),
             SALUS_FIELD(persistent), SALUS_FIELD(ephemeral), SALUS_FIELD(occupancy), SALUS_OPTIONAL(job),
             SALUS_OPTIONAL(iterations_before), SALUS_OPTIONAL(interactive))
SALUS_SCHEMA(event::Demand, "demand", SALUS_FIELD(client), SALUS_FIELD(persistent), SALUS_FIELD(ephemeral),
             SALUS_FIELD(occupancy))
SALUS_SCHEMA(event::Need, "need", SALUS_FIELD(client), SALUS_FIELD(persistent), SALUS_FIELD(ephemeral))
SALUS_SCHEMA(event::Observe, "observe", SALUS_FIELD(client), SALUS_FIELD(persistent))
SALUS_SCHEMA(event::Unpageable, "unpageable", SALUS_FIELD(client), SALUS_FIELD(for_good))
SALUS_SCHEMA(event::SetRest, "set-rest", SALUS_FIELD(client), SALUS_FIELD(rest))
SALUS_SCHEMA(event::Progress, "progress", SALUS_FIELD(client), SALUS_FIELD(iterations), SALUS_FIELD(idle),
             SALUS_OPTIONAL(launches))
SALUS_SCHEMA(event::Want, "want", SALUS_FIELD(client))
SALUS_SCHEMA(event::Boundary, "boundary", SALUS_FIELD(client), SALUS_FIELD(iterations))
SALUS_SCHEMA(event::Idle, "idle", SALUS_FIELD(client), SALUS_FIELD(iterations))
SALUS_SCHEMA(event::Acknowledge, "acknowledge", SALUS_FIELD(client), SALUS_FIELD(lane), SALUS_FIELD(version))
SALUS_SCHEMA(event::PagedOut, "paged-out", SALUS_FIELD(client), SALUS_OPTIONAL(rest))
SALUS_SCHEMA(event::PagedIn, "paged-in", SALUS_FIELD(client))
SALUS_SCHEMA(event::Leave, "leave", SALUS_FIELD(client), SALUS_FIELD(iterations))
SALUS_SCHEMA(event::Die, "die", SALUS_FIELD(client))
SALUS_SCHEMA(event::Stop, "stop", SALUS_FIELD(client))
SALUS_SCHEMA(event::Continue, "continue", SALUS_FIELD(client))
SALUS_SCHEMA(event::Hold, "hold", SALUS_FIELD(job), SALUS_FIELD(held))
SALUS_SCHEMA(event::Suspend, "suspend", SALUS_FIELD(client))
SALUS_SCHEMA(event::Resume, "resume", SALUS_FIELD(client))
SALUS_SCHEMA(event::PageIdle, "page-idle", SALUS_FIELD(client))
SALUS_SCHEMA(event::Adjust, "adjust", SALUS_FIELD(client), SALUS_FIELD(priority), SALUS_FIELD(weight),
             SALUS_FIELD(iterations_total))
SALUS_SCHEMA(event::JoinCrew, "join-crew", SALUS_FIELD(client), SALUS_FIELD(crew))
SALUS_SCHEMA(event::SetClass, "set-class", SALUS_FIELD(client), SALUS_FIELD(interactive))
SALUS_SCHEMA(event::Requests, "requests", SALUS_FIELD(client), SALUS_FIELD(in_flight), SALUS_FIELD(begun))
SALUS_SCHEMA(event::Recall, "recall", SALUS_FIELD(client), SALUS_FIELD(other), SALUS_FIELD(rate))
SALUS_SCHEMA(event::SetPolicy, "set-policy", SALUS_FIELD(policy))
SALUS_SCHEMA(event::SetMinTurn, "set-min-turn", SALUS_FIELD(min_turn))
SALUS_SCHEMA(event::SetPageRate, "set-page-rate", SALUS_FIELD(bytes_per_s))
SALUS_SCHEMA(event::SetLimits, "set-limits", SALUS_FIELD(lanes_max), SALUS_FIELD(paging), SALUS_FIELD(rehome_after),
             SALUS_OPTIONAL(page_idle_after))
SALUS_SCHEMA(event::SetUserLimits, "set-user-limits", SALUS_FIELD(user), SALUS_FIELD(jobs_max), SALUS_FIELD(memory_max))
SALUS_SCHEMA(event::SetCapacity, "set-capacity", SALUS_FIELD(capacity), SALUS_OPTIONAL(orphans))
SALUS_SCHEMA(event::SetContext, "set-context", SALUS_FIELD(context))
SALUS_SCHEMA(event::RenewLane, "renew-lane", SALUS_FIELD(lane))
SALUS_SCHEMA(event::Timer, "timer")

SALUS_SCHEMA(action::Start, "start", SALUS_FIELD(job))
SALUS_SCHEMA(action::Admit, "admit", SALUS_FIELD(client), SALUS_FIELD(lane))
SALUS_SCHEMA(action::Refuse, "refuse", SALUS_FIELD(client), SALUS_FIELD(need), SALUS_FIELD(capacity))
SALUS_SCHEMA(action::AssignLane, "assign-lane", SALUS_FIELD(client), SALUS_FIELD(lane), SALUS_FIELD(size),
             SALUS_FIELD(version))
SALUS_SCHEMA(action::ResizeLane, "resize-lane", SALUS_FIELD(client), SALUS_FIELD(lane), SALUS_FIELD(size),
             SALUS_FIELD(version))
SALUS_SCHEMA(action::CloseLane, "close-lane", SALUS_FIELD(client), SALUS_FIELD(lane), SALUS_FIELD(version))
SALUS_SCHEMA(action::Grant, "grant", SALUS_FIELD(client), SALUS_FIELD(lane), SALUS_FIELD(handover))
SALUS_SCHEMA(action::Yield, "yield", SALUS_FIELD(client))
SALUS_SCHEMA(action::Revoke, "revoke", SALUS_FIELD(client))
SALUS_SCHEMA(action::Room, "room", SALUS_FIELD(client), SALUS_FIELD(persistent))
SALUS_SCHEMA(action::Deny, "deny", SALUS_FIELD(client), SALUS_FIELD(need), SALUS_FIELD(capacity))
SALUS_SCHEMA(action::PageOut, "page-out", SALUS_FIELD(client), SALUS_FIELD(persistent))
SALUS_SCHEMA(action::PageIn, "page-in", SALUS_FIELD(client), SALUS_FIELD(persistent))
SALUS_SCHEMA(action::Wait, "wait", SALUS_FIELD(client), SALUS_FIELD(reason), SALUS_FIELD(behind))
SALUS_SCHEMA(action::CloseGates, "close-gates")
SALUS_SCHEMA(action::OpenGates, "open-gates")
SALUS_SCHEMA(action::FallBack, "fall-back", SALUS_FIELD(fault))
SALUS_SCHEMA(action::Drop, "drop", SALUS_FIELD(client), SALUS_FIELD(fault))

SALUS_SCHEMA(EngineOptions, "options", SALUS_FIELD(capacity), SALUS_FIELD(lanes_max), SALUS_FIELD(paging),
             SALUS_FIELD(min_turn), SALUS_FIELD(page_bytes_per_s), SALUS_FIELD(page_share_max), SALUS_FIELD(review_every),
             SALUS_FIELD(reserve_after), SALUS_FIELD(rehome_after), SALUS_FIELD(profile_iterations), SALUS_OPTIONAL(context),
             SALUS_OPTIONAL(page_idle_after), SALUS_OPTIONAL(share_by_user), SALUS_OPTIONAL(overlap),
             SALUS_OPTIONAL(user_jobs_max), SALUS_OPTIONAL(user_memory_max))

// ----------------------------------------------------------------------------------------------------------- writing

template <typename N>
std::string number_text(N number) {
    char text[40];
    const auto [end, error] = std::to_chars(text, text + sizeof text, number);
    return std::string(text, end);
}

template <typename V>
std::string value_text(const V& value) {
    if constexpr (std::is_same_v<V, ClientId> || std::is_same_v<V, LaneId>) {
        return value == V{0xffffffffu} ? "-" : number_text(static_cast<std::uint32_t>(value));
    } else if constexpr (std::is_same_v<V, UserId> || std::is_same_v<V, JobId>) {
        return number_text(static_cast<std::uint32_t>(value));
    } else if constexpr (std::is_enum_v<V>) {
        return std::string(name_of(value));
    } else if constexpr (std::is_same_v<V, Bytes>) {
        return number_text(value.count);
    } else if constexpr (std::is_same_v<V, Duration>) {
        return number_text(value.ns);
    } else if constexpr (std::is_same_v<V, const Policy*>) {
        return std::string(value->info.name);
    } else if constexpr (std::is_same_v<V, bool>) {
        return value ? "1" : "0";
    } else {
        return number_text(value);
    }
}

template <typename T>
void write_fields(std::string& out, const T& object) {
    const T untouched{};
    const auto write = [&](const auto& field) {
        if (field.optional && object.*field.member == untouched.*field.member) return;
        out.append(" ").append(field.name).append("=").append(value_text(object.*field.member));
    };
    std::apply([&](const auto&... field) { (write(field), ...); }, Schema<T>::fields);
}

// ----------------------------------------------------------------------------------------------------------- reading

using Words = std::vector<std::string_view>;

std::optional<std::string_view> value_of(const Words& words, std::string_view name) {
    for (std::string_view word : words) {
        if (word.size() > name.size() && word.substr(0, name.size()) == name && word[name.size()] == '=') {
            return word.substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

template <typename V>
bool read_value(std::string_view text, V& value, PolicyFinder find_policy) {
    if constexpr (std::is_same_v<V, const Policy*>) {
        value = find_policy(text);
        return value != nullptr;
    } else if constexpr (std::is_floating_point_v<V>) {
        const auto number = parse_number(text);
        if (number) value = *number;
        return number.has_value();
    } else if constexpr (std::is_same_v<V, std::uint64_t>) {  // comes from a client, so it may be anything
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc{} && end == text.data() + text.size();
    } else {
        if (text == "-" && std::is_enum_v<V>) text = "4294967295";
        const auto number = parse_integer(text);
        if (!number) return false;
        if constexpr (std::is_same_v<V, Bytes>) value.count = *number;
        else if constexpr (std::is_same_v<V, Duration>) value.ns = *number;
        else value = static_cast<V>(*number);
        return true;
    }
}

/// The name of the first field that is missing or unreadable; empty if all is well.
template <typename T>
std::string_view read_fields(const Words& words, T& object, PolicyFinder find_policy) {
    std::string_view bad;
    const auto read = [&](const auto& field) {
        const auto text = value_of(words, field.name);
        if (field.optional && !text) return;
        if (bad.empty() && (!text || !read_value(*text, object.*field.member, find_policy))) bad = field.name;
    };
    std::apply([&](const auto&... field) { (read(field), ...); }, Schema<T>::fields);
    return bad;
}

template <std::size_t I = 0>
Result<Event> read_event(const Words& words, PolicyFinder find_policy) {
    if constexpr (I == std::variant_size_v<Event>) {
        return Error{"unknown event '" + std::string(words[1]) + "'"};
    } else {
        using T = std::variant_alternative_t<I, Event>;
        if (words[1] != Schema<T>::name) return read_event<I + 1>(words, find_policy);
        T event{};
        const std::string_view bad = read_fields(words, event, find_policy);
        if (!bad.empty()) return Error{"missing or bad field '" + std::string(bad) + "'"};
        return Event(event);
    }
}

}  // namespace

std::string format_header(const EngineOptions& options, std::string_view policy) {
    std::string out = "salus-trace 1 policy=" + std::string(policy);
    write_fields(out, options);
    return out;
}

std::string format_event(const Event& event, Instant at) {
    std::string out = "@";
    out.append(number_text(at.ns)).append(" ");
    std::visit(
        [&]<typename T>(const T& e) {
            out += Schema<T>::name;
            write_fields(out, e);
        },
        event);
    return out;
}

std::string format_action(const Action& action) {
    std::string out = "  ";
    std::visit(
        [&]<typename T>(const T& a) {
            out += Schema<T>::name;
            write_fields(out, a);
        },
        action);
    return out;
}

Result<Replay> replay_trace(std::string_view text, PolicyFinder find_policy, const Policy& fallback,
                            ReplayObserver* observer) {
    std::size_t line_number = 0;
    Replay replay;
    const auto at_line = [&](const std::string& what) { return "line " + std::to_string(line_number) + ": " + what; };
    const auto error = [&](const std::string& what) { return Error{at_line(what)}; };
    const auto differs = [&](const std::string& what) {
        replay.difference = at_line(what);
        return replay;
    };
    std::optional<Engine> engine;
    std::vector<std::string> expected;  // actions that the engine took and the trace has not shown yet
    std::size_t shown = 0;
    Instant last{};
    for (std::string_view line : split(text, '\n')) {
        ++line_number;
        if (trim(line).empty()) continue;
        if (line.front() == '#') {
            if (observer) observer->note(line);
            continue;
        }
        const Words words = split(trim(line), ' ');
        if (!engine) {
            EngineOptions options;
            const auto policy_name = value_of(words, "policy");
            if (words.size() < 2 || words[0] != "salus-trace" || words[1] != "1" || !policy_name)
                return error("not a salus trace");
            const Policy* policy = find_policy(*policy_name);
            if (!policy) return error("unknown policy '" + std::string(*policy_name) + "'");
            const std::string_view bad = read_fields(words, options, find_policy);
            if (!bad.empty()) return error("missing or bad option '" + std::string(bad) + "'");
            engine.emplace(options, *policy, fallback);
            continue;
        }
        if (line.front() == ' ') {
            if (shown == expected.size()) return differs("the engine no longer does this: " + std::string(trim(line)));
            if (trim(expected[shown]) != trim(line))
                return differs("the engine now does '" + std::string(trim(expected[shown])) + "' instead");
            ++shown;
            ++replay.actions;
            continue;
        }
        if (shown != expected.size())
            return differs("before this the engine now also does '" + std::string(trim(expected[shown])) + "'");
        const auto at = line.front() == '@' && words.size() > 1 ? parse_integer(words[0].substr(1)) : std::nullopt;
        if (!at || Instant{*at} < last) return error("an event starts with '@' and a time that does not go back");
        Result<Event> event = read_event(words, find_policy);
        if (!event) return error(event.error());
        last = Instant{*at};
        expected.clear();
        shown = 0;
        const std::span<const Action> actions = engine->handle(event.value(), last);
        for (const Action& action : actions) expected.push_back(format_action(action));
        if (observer) observer->after_event(event.value(), last, actions, *engine);
        ++replay.events;
    }
    if (!engine) {
        line_number = 1;
        return error("not a salus trace");
    }
    if (shown != expected.size()) return differs("the trace ends before '" + std::string(trim(expected[shown])) + "'");
    return replay;
}

}  // namespace salus
