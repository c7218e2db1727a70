// dlsym: programs that look the driver's functions up by name get the shim's.
#pragma once

namespace salus::shim {

using Dlsym = void* (*)(void* handle, const char* symbol);

/// The C library's, or that of another library that stands before it.
Dlsym real_dlsym();

}  // namespace salus::shim
