// What the sanitizers are told by the programs that tests start with a library preloaded, before the sanitizer's own.
extern "C" const char* __asan_default_options() { return "verify_asan_link_order=0"; }  // NOLINT
