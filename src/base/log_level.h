#pragma once

namespace salus {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

}  // namespace salus
