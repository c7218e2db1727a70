"""torch's CUDA allocator with Salus in front of it: allocator.cpp, compiled on first use against the torch at hand."""

import ctypes
import glob
import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCE = os.path.join(_HERE, "allocator.cpp")
_HEADER = os.path.join(_HERE, "salus.h")  # a link to the one in include/, or a copy where the package was installed

_FUNCTIONS = ("alloc_on", "free", "used_on", "wait_for_stream", "owns", "get_usage", "reset_peaks", "give_back", "error_text")


class _Api(ctypes.Structure):
    """salus_torch_api of allocator.cpp."""

    _fields_ = [("version", ctypes.c_uint64), ("device", ctypes.c_int64), ("client", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p) for name in _FUNCTIONS]


# What salus_torch_install answers.
_REFUSALS = {
    1: "it was compiled for another version of Salus",
    2: "this torch has no CUDA allocator",
    3: "torch's caching of CUDA memory is turned off",
    4: "it is already installed",
}


class Impossible(Exception):
    """One line: why."""


def install(torch, client):
    """Serves large CUDA tensors on the client's GPU from the client's memory. Returns why that is impossible, or nothing."""
    try:
        if not torch.version.cuda:
            raise Impossible("this torch was built without CUDA")
        path = compiled(torch)
        try:
            function = ctypes.CDLL(path).salus_torch_install
        except (OSError, AttributeError) as error:
            raise Impossible("%s cannot be loaded: %s" % (path, error))
        function.argtypes = [ctypes.POINTER(_Api)]
        function.restype = ctypes.c_int
        api = _Api(version=3, device=client.device_ordinal, client=client.address)
        for name in _FUNCTIONS:
            setattr(api, name, client.function_address("salus_" + name))
        refusal = function(ctypes.byref(api))
        if refusal:
            raise Impossible("the allocator cannot be installed: %s" % _REFUSALS.get(refusal, "torch refused it"))
    except Impossible as error:
        return " ".join(str(error).split())
    return None


def outlook():
    """One line for `salus doctor`; empty if there is no torch."""
    try:
        import torch
    except ImportError:
        return ""
    about = "torch %s" % torch.__version__
    if not torch.version.cuda:
        return about + " was built without CUDA: it does not use the GPU"
    try:
        if os.path.exists(_trusted(os.path.join(_cache_folder(), "torch", _name(torch)))):
            return about + ": its tensors will be in lanes"
        compiler()
        flags(torch)
    except Impossible as error:
        return "%s takes turns, but has no lanes: %s" % (about, error)
    return about + ": its tensors will be in lanes; the allocator is compiled when first used"


def compiled(torch):
    """The path of the compiled object, which is compiled now if it is missing. Raises Impossible."""
    folder = os.path.join(_cache_folder(), "torch")
    path = _trusted(os.path.join(folder, _name(torch)))
    if os.path.exists(path):
        return path
    import fcntl  # missing on some systems, which never get here

    try:
        _make_private(folder)
        # Jobs that start together wait for the first one to compile.
        with open(os.path.join(folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path):
                _compile(torch, path)
    except OSError as error:
        raise Impossible("the allocator for this torch cannot be compiled: %s" % error)
    return _trusted(path)


def _cache_folder():
    """An absolute path. Raises Impossible if XDG_CACHE_HOME is unset or relative (which is invalid) and there is no home."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(cache):
        raise Impossible("no home directory for the compiled torch allocator; set XDG_CACHE_HOME")
    return os.path.join(cache, "salus")


def _trusted(path):
    """The path, if only this user and root can have written the file or can replace it. Raises Impossible.

    As Note [Trust] of src/os/trust.cpp has it.
    """
    for place in (os.path.abspath(path), os.path.realpath(path)):
        closed = False
        names = place.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            here = "/" + "/".join(names[:depth])
            above = depth < len(names)
            try:
                status = os.lstat(here)
            except OSError:
                break  # nobody has written it
            if status.st_uid not in (os.getuid(), 0) and not (above and status.st_uid == _UNMAPPED):
                raise Impossible("%s belongs to another user" % here)
            if stat.S_ISLNK(status.st_mode):
                continue  # its target is checked, too
            sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            if not closed and _others_may(stat.S_IWOTH, status) and not (above and sticky):
                raise Impossible("%s can be written by other users; chmod go-w helps" % here)
            if stat.S_ISDIR(status.st_mode) and status.st_uid != _UNMAPPED and not _others_may(stat.S_IXOTH, status):
                closed = True  # other users cannot get further
    return path


# In a user namespace, the files of all users that it does not map (root's among them) appear under this id.
_UNMAPPED = 65534


def _others_may(what, status):
    """`what` is S_IWOTH or S_IXOTH. The user's own group, with the same number, has no other members."""
    harmless = status.st_gid == 0 or status.st_gid == os.getgid() == os.getuid()
    return bool(status.st_mode & what) or (bool(status.st_mode & what << 3) and not harmless)


def _make_private(folder):
    """Creates the folders. The last one is closed to others, and others can write to none. Raises Impossible, OSError."""
    _trusted(folder)
    names = folder.strip("/").split("/")
    for depth in range(1, len(names) + 1):
        part = "/" + "/".join(names[:depth])
        if not os.path.isdir(part):
            try:
                os.mkdir(part, 0o755 if depth < len(names) else 0o700)
            except FileExistsError:
                if not os.path.isdir(part):
                    raise
    _trusted(folder)


def _cxx11_abi(torch):
    return int(bool(torch._C._GLIBCXX_USE_CXX11_ABI))


def _name(torch):
    """Names the source and the target of the compilation, so that an object with the same name fits."""
    digest = hashlib.sha256()
    for file in (_SOURCE, _HEADER):
        try:
            with open(file, "rb") as opened:
                digest.update(opened.read())
        except OSError as error:
            raise Impossible("%s is not readable: %s" % (file, error.strerror))
    return "allocator-%s-cuda%s-abi%d-%s-%s.so" % (
        re.sub(r"[^\w.+]", "_", torch.__version__), torch.version.cuda, _cxx11_abi(torch), platform.machine(),
        digest.hexdigest()[:12])


def _compile(torch, path):
    command = compiler() + flags(torch)
    sys.stderr.write("salus: compiling the memory allocator for torch %s (once) ...\n" % torch.__version__)
    sys.stderr.flush()
    temporary = "%s.%d" % (path, os.getpid())
    try:
        result = subprocess.run(
            command + ["-O2", "-fPIC", "-shared", "-o", temporary, _SOURCE, "-L" + os.path.join(_folder(torch), "lib"),
                       "-lc10", "-lc10_cuda"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, LC_ALL="C"))
        if result.returncode != 0:
            raise Impossible("the allocator for torch %s cannot be compiled, %s said: %s" % (
                torch.__version__, command[0], _first_error(result.stdout.decode(errors="replace"), result.returncode)))
        os.chmod(temporary, 0o700)  # it will be executed, so do not depend on the umask
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _first_error(output, status):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\berror\b|undefined reference|cannot find", line, re.IGNORECASE):
            return line[:300]
    return lines[0][:300] if lines else "nothing, but exit status %d" % status


def compiler():
    named = shlex.split(os.environ.get("CXX", ""))
    for command in ([named] if named else []) + [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise Impossible("there is no C++ compiler (g++ or clang++, or what CXX names) for torch's allocator")


def flags(torch):
    """The compiler options for the headers. Raises Impossible."""
    include = os.path.join(_folder(torch), "include")
    if not os.path.exists(os.path.join(include, "c10", "cuda", "CUDACachingAllocator.h")):
        raise Impossible("torch's headers are not in %s" % include)
    result = ["-std=c++20", "-D_GLIBCXX_USE_CXX11_ABI=%d" % _cxx11_abi(torch)]
    # As system headers, so that compilers do not warn about them.
    for folder in [include] + _cuda_headers(torch):
        result += ["-isystem", folder]
    return result


def _folder(torch):
    return os.path.dirname(os.path.abspath(torch.__file__))


def _cuda_headers(torch):
    """The first of the usual places that has all required headers. Raises Impossible."""
    homes = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    nvcc = shutil.which("nvcc")
    if nvcc:
        homes.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    homes += [os.environ.get("CONDA_PREFIX"), "/usr"]
    places = []
    for home in filter(None, homes):
        places.append([os.path.join(home, "include")])
        places.append(glob.glob(os.path.join(home, "targets", "*-linux", "include")))
    packages = os.path.dirname(_folder(torch))
    # pip's CUDA packages come in many parts. Triton, which torch depends on, has its own copy of the headers.
    places.append(sorted(glob.glob(os.path.join(packages, "nvidia", "*", "include"))))
    places.append([os.path.join(packages, "triton", "backends", "nvidia", "include")])
    for place in places:
        if all(any(os.path.exists(os.path.join(folder, header)) for folder in place)
               for header in ("cuda.h", "cuda_runtime_api.h", os.path.join("crt", "host_defines.h"))):
            # The compiler's own folders must keep their place in the search order.
            return [folder for folder in place if os.path.realpath(folder) != "/usr/include"]
    raise Impossible("CUDA's headers (cuda_runtime_api.h) are not found: CUDA_HOME can say where they are")
