#pragma once

namespace salus::os {

/// The width of the terminal that this descriptor is; 0: it is none, or does not say.
int terminal_columns(int descriptor);

}  // namespace salus::os
