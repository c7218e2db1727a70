#include "base/version.h"

namespace salus {

const char* const kSalusVersion = SALUS_VERSION;

}  // namespace salus
