// The version of Salus, as the file VERSION has it.
#pragma once

namespace salus {

/// MAJOR.MINOR.PATCH.
extern const char* const kSalusVersion;

}  // namespace salus
