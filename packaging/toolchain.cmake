# What `make package` builds with: see packaging/c++, which it runs.
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/c++)
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXE_LINKER_FLAGS_INIT -pie)
# Not this machine's libdl, which belongs to its glibc.
set(LIBDL dl CACHE STRING "")
# GCC's helpers for arithmetic. Without them the linker takes those of zig, one object which also has a memcpy, a strlen and a sin
# of its own: slower than the C library's, and in their place.
execute_process(COMMAND g++ -print-libgcc-file-name OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT ${libgcc})
