// The version of Salus, as the file VERSION has it.
#pragma once

namespace salus {

/// "0.1.0".
extern const char* const kSalusVersion;

}  // namespace salus
