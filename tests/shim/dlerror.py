#!/usr/bin/env python3
"""Looks a function of the driver up by name, as careful programs do."""
import ctypes

libc = ctypes.CDLL(None)
libc.dlopen.restype = libc.dlsym.restype = ctypes.c_void_p
libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
libc.dlerror.restype = ctypes.c_char_p
driver = libc.dlopen(b"libcuda.so.1", 2)
libc.dlerror()
found = libc.dlsym(driver, b"cuInit")
print("cuInit", "found," if found else "missing,", libc.dlerror())
