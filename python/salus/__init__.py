"""The adaptor: lets unmodified PyTorch scripts share a device.

`salus run` puts inject/ on PYTHONPATH; the sitecustomize there calls adaptor.watch(), and all happens by itself once the
script imports torch:

    inject/sitecustomize.py   gets into the interpreter
    imports.py                does something when a module has been imported
    adaptor.py                decides whether this process becomes a client, and attaches it
    library.py                libsalus.so
    boundaries.py             where iterations begin and end: pure, knows no torch
    torch_hooks.py            tells boundaries.py what torch does
"""
