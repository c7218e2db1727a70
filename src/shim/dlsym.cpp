// Note [A dlsym in front of the C library's]
// RTLD_NEXT and RTLD_DEFAULT search relative to the caller, whom dlsym knows by its return address. So with these two the
// wrapper jumps to the real one and leaves no trace: a library that looks for the next definition of a function that it
// wraps itself would otherwise find its own, and call itself for ever. With a handle, the real one is called first, and its
// result replaced only if it is a function of libcuda.so.1 that the shim stands before, compared by address. A name proves
// nothing: other libraries have functions whose names begin with "cu".
//
// dlvsym is not wrapped: the driver's symbols have no versions.
#include "shim/dlsym.h"

#include <dlfcn.h>

#include <initializer_list>

#include "shim/old_glibc.h"
#include "shim/real.h"

extern "C" {
__attribute__((visibility("hidden"))) void* salus_shim_real_dlsym = nullptr;

/// A sanitizer looks for its functions before it can check anything.
__attribute__((visibility("hidden"), used, no_sanitize("address", "thread", "undefined"))) void salus_shim_find_dlsym() {
    static constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (const char* version : kVersions) {
        void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version);
        if (found) return __atomic_store_n(&salus_shim_real_dlsym, found, __ATOMIC_RELEASE);
    }
}

__attribute__((visibility("hidden"), used)) void* salus_shim_dlsym_of_handle(void* handle, const char* symbol) {
    void* const found = salus::shim::real_dlsym()(handle, symbol);
    const bool may_be_the_drivers = found && symbol[0] == 'c' && symbol[1] == 'u';
    return may_be_the_drivers ? salus::shim::instead_of(found) : found;
}
}

namespace salus::shim {

Dlsym real_dlsym() {
    void* found = __atomic_load_n(&salus_shim_real_dlsym, __ATOMIC_ACQUIRE);
    if (!found) {
        salus_shim_find_dlsym();
        found = salus_shim_real_dlsym;
    }
    return reinterpret_cast<Dlsym>(found);
}

}  // namespace salus::shim

// RTLD_DEFAULT is 0, RTLD_NEXT is -1.
#if defined(__x86_64__)
__asm__(R"(
        .text
        .globl  dlsym
        .type   dlsym, @function
dlsym:  .cfi_startproc
        endbr64
        leaq    1(%rdi), %rax
        cmpq    $1, %rax
        ja      salus_shim_dlsym_of_handle
        movq    salus_shim_real_dlsym(%rip), %rax
        testq   %rax, %rax
        jz      1f
        jmp     *%rax
1:      pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    salus_shim_find_dlsym
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *salus_shim_real_dlsym(%rip)
        .cfi_endproc
        .size   dlsym, . - dlsym
)");
#else
__asm__(R"(
        .text
        .globl  dlsym
        .type   dlsym, %function
dlsym:  .cfi_startproc
        add     x9, x0, #1
        cmp     x9, #1
        b.hi    salus_shim_dlsym_of_handle
        adrp    x9, salus_shim_real_dlsym
        ldr     x9, [x9, :lo12:salus_shim_real_dlsym]
        cbz     x9, 1f
        br      x9
1:      stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        stp     x0, x1, [sp, #16]
        bl      salus_shim_find_dlsym
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        adrp    x9, salus_shim_real_dlsym
        ldr     x9, [x9, :lo12:salus_shim_real_dlsym]
        br      x9
        .cfi_endproc
        .size   dlsym, . - dlsym
)");
#endif
