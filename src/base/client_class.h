// The class of a client: batch works through a queue, interactive answers somebody who waits.
#pragma once

#include <cstdint>
#include <string_view>

namespace salus {

/// Why a client has its class. The numbers are part of the protocol.
enum class ClassReason : std::uint8_t {
    kUnknown = 0,   ///< batch: nothing is known yet
    kSaid = 1,      ///< by its user
    kHistory = 2,   ///< earlier runs of the command had it
    kTrains = 3,    ///< batch: it trains, or did a moment ago
    kFetches = 4,   ///< batch: it fetches data between its calls
    kComputes = 5,  ///< batch: it computes between its calls
    kNoPauses = 6,  ///< batch: its calls follow each other
    kWaits = 7,     ///< interactive: it waits between its calls, and fetches nothing
};

struct ClientClass {
    bool interactive = false;
    ClassReason reason = ClassReason::kUnknown;

    bool operator==(const ClientClass&) const = default;
};

constexpr std::string_view name_of_class(bool interactive) { return interactive ? "interactive" : "batch"; }

/// For people; empty where there is nothing to say.
constexpr std::string_view text_of(ClassReason reason) {
    switch (reason) {
        case ClassReason::kSaid: return "as its user said";
        case ClassReason::kHistory: return "as in earlier runs";
        case ClassReason::kTrains: return "it trains";
        case ClassReason::kFetches: return "it fetches data between its calls";
        case ClassReason::kComputes: return "it computes between its calls";
        case ClassReason::kNoPauses: return "its calls follow each other";
        case ClassReason::kWaits: return "it waits between its calls";
        case ClassReason::kUnknown: break;
    }
    return "";
}

}  // namespace salus
