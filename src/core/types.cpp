#include "core/types.h"

namespace salus {

std::string_view name_of(WaitReason reason) {
    switch (reason) {
        case WaitReason::kNothing: return "nothing";
        case WaitReason::kTurn: return "turn";
        case WaitReason::kMemory: return "memory";
        case WaitReason::kReservation: return "reservation";
        case WaitReason::kProfiling: return "profiling";
        case WaitReason::kPaging: return "paging";
        case WaitReason::kMapping: return "mapping";
        case WaitReason::kStoppedHolder: return "stopped-holder";
        case WaitReason::kOrder: return "order";
        case WaitReason::kPaused: return "paused";
        case WaitReason::kRefused: return "refused";
        case WaitReason::kUserMemory: return "user-memory";
        case WaitReason::kUserJobs: return "user-jobs";
    }
    return "?";
}

std::string_view name_of(PolicyFault fault) {
    switch (fault) {
        case PolicyFault::kNotACandidate: return "not-a-candidate";
        case PolicyFault::kRankNotFinite: return "rank-not-finite";
    }
    return "?";
}

std::string_view name_of(ProtocolFault fault) {
    switch (fault) {
        case ProtocolFault::kUnknownClient: return "unknown-client";
        case ProtocolFault::kNoGrant: return "no-grant";
        case ProtocolFault::kNotAsked: return "not-asked";
        case ProtocolFault::kNonsense: return "nonsense";
    }
    return "?";
}

}  // namespace salus
