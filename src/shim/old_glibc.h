// Binds the functions whose version changed after glibc 2.28 to their oldest one. A preloaded library that needs a version
// which is not there stops every process of the job.
#pragma once

#if defined(__x86_64__)
#define SALUS_OLD_GLIBC(function) __asm__(".symver " #function "," #function "@GLIBC_2.2.5");
#elif defined(__aarch64__)
#define SALUS_OLD_GLIBC(function) __asm__(".symver " #function "," #function "@GLIBC_2.17");
#else
#error "the shim knows x86-64 and aarch64"
#endif

SALUS_OLD_GLIBC(dlopen)
SALUS_OLD_GLIBC(dlvsym)
SALUS_OLD_GLIBC(dlerror)
SALUS_OLD_GLIBC(dladdr)
