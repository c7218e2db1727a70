#include "os/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace salus::os {

int terminal_columns(int descriptor) {
    winsize size{};
    return ::isatty(descriptor) == 1 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace salus::os
