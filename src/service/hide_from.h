// What a user may not see of others' jobs.
#pragma once

#include "status/status.h"

namespace salus::service {

/// Clears what `uid` may not see. Root sees all. Others' commands may have secrets among their arguments; if `only_numbers`,
/// nothing stays that tells whose a job is or what it does: its number, state, memory and times do.
void hide_from(unsigned uid, Status& status, bool only_numbers);

}  // namespace salus::service
