"""Tests of python/salus/cuda: that allocator.cpp fits the torch at hand, and how it gets compiled. None needs a GPU."""

import contextlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
from salus import cuda  # noqa: E402

ALLOCATOR = os.path.join(ROOT, "python", "salus", "cuda", "allocator.cpp")
BEHAVIOUR = os.path.join(ROOT, "tests", "python", "allocator_test.cpp")


def look_alike(file, version="2.11.0"):
    """As much of torch as is looked at."""
    return types.SimpleNamespace(
        __file__=file, __version__=version, version=types.SimpleNamespace(cuda="13.0"),
        _C=types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True))


def torches():
    """The torch of each Python that scripts/setup-torch has found, and of this one; without importing them."""
    pythons = [sys.executable]
    with contextlib.suppress(OSError):
        with open(os.path.join(ROOT, "build", "pythons")) as lines:
            pythons += [line.split(None, 1)[1].strip() for line in lines if line.strip()]
    found = {}
    for python in pythons:
        code = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"
        result = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        file = result.stdout.decode().strip()
        if file:
            found[os.path.realpath(file)] = look_alike(file)
    return list(found.values())


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def known_torches():
    """Those that allocator.cpp is for, if the headers to compile it are here. Says what is left out."""
    known = []
    for torch in torches():
        include = os.path.join(os.path.dirname(torch.__file__), "include")
        try:
            cuda.compiler()
            cuda.flags(torch)
            version = read(include, "torch", "csrc", "api", "include", "torch", "version.h")
            with contextlib.suppress(OSError):
                version += read(include, "torch", "headeronly", "version.h")
        except (cuda.Impossible, OSError) as error:
            print("allocator.cpp: %s: SKIPPED" % error)
            continue
        if int(re.search(r"define TORCH_VERSION_MINOR (\d+)", version).group(1)) >= 8:
            known.append((torch, include))
    if not known:
        print("allocator.cpp: no torch of version 2.8 or later, with its headers and CUDA's, is here: SKIPPED")
    return known


class Source(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.torches = known_torches()

    def test_it_compiles(self):
        for torch, include in self.torches:
            self.compile(torch, include, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", ALLOCATOR)

    def compile(self, torch, include, *words):
        command = cuda.compiler() + cuda.flags(torch) + [*words]
        if not os.path.exists(os.path.join(include, "c10", "cuda", "impl", "cuda_cmake_macros.h")):
            command.append("-DC10_USING_CUSTOM_GENERATED_MACROS")  # a torch for the CPU leaves it out
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout.decode(errors="replace")[:3000])

    def test_what_it_does(self):
        """Each test of allocator_test.cpp, in a process of its own: there is one allocator a process."""
        for torch, include in self.torches:
            with tempfile.TemporaryDirectory(prefix="salus-test-") as folder:
                program = os.path.join(folder, "allocator_test")
                libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
                self.compile(torch, include, "-I", os.path.dirname(ALLOCATOR), "-o", program, BEHAVIOUR, "-pthread",
                             "-L" + libraries, "-lc10", "-Wl,-rpath," + libraries)
                names = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode().split()
                self.assertGreater(len(names), 10)
                for name in names:
                    with self.subTest(name):
                        result = subprocess.run([program, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
                        self.assertEqual(result.returncode, 0, result.stdout.decode(errors="replace"))

    def test_everything_is_handed_on(self):
        """Also what has a default: it would say that the allocator cannot do it, or do nothing."""
        source = re.sub(r"(?m)^#.*", "", read(ALLOCATOR))
        overridden = set(re.findall(r"(\w+)\([^;{}]*\)(?: const)? override", source))
        for _, include in self.torches:
            for header, head in (("cuda/CUDACachingAllocator.h", "class CUDAAllocator "),
                                 ("core/CachingDeviceAllocator.h", "struct C10_API DeviceAllocator "),
                                 ("core/Allocator.h", "struct C10_API Allocator ")):
                text = read(include, "c10", header)
                start = text.index(head)
                text = re.sub(r"//.*", "", text[start:text.index("\n};", start)])
                virtuals = set(re.findall(r"virtual\s[^(~]*?(\w+)\(", text))
                self.assertTrue(virtuals)
                self.assertEqual(virtuals - overridden, set(), header)


class Folder(unittest.TestCase):
    """A torch, a CUDA and a compiler that are not real, in a folder of their own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="salus-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.torch = look_alike(self.file("packages/torch/__init__.py"))
        self.file("packages/torch/include/c10/cuda/CUDACachingAllocator.h")
        for header in ("cuda.h", "cuda_runtime_api.h", "crt/host_defines.h"):
            self.file("cuda/include/" + header)
        self.log = os.path.join(self.folder, "log")
        self.compiler("echo object >\"$object\"")
        environment = {
            "CXX": os.path.join(self.folder, "compiler"), "CUDA_HOME": os.path.join(self.folder, "cuda"),
            "XDG_CACHE_HOME": os.path.join(self.folder, "state")}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def file(self, path, text=""):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def compiler(self, script):
        """`script` finds the file that is to be made in $object."""
        path = self.file("compiler", """#!/bin/sh
echo "$*" >>'%s'
object=; for argument; do [ "$previous" != -o ] || object=$argument; previous=$argument; done
%s
""" % (self.log, script))
        os.chmod(path, stat.S_IRWXU)

    def runs(self):
        return read(self.log).splitlines() if os.path.exists(self.log) else []

    def quietly(self, function, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return function(*arguments), said.getvalue()

    def why_not(self):
        why_not, _ = self.quietly(cuda.install, self.torch, mock.Mock())
        self.assertTrue(why_not)
        self.assertEqual(len(why_not.splitlines()), 1)
        return why_not


class Builder(Folder):
    def test_it_is_compiled_once(self):
        path, said = self.quietly(cuda.compiled, self.torch)
        self.assertEqual(read(path), "object\n")
        self.assertEqual(said, "salus: compiling the memory allocator for torch 2.11.0 (once) ...\n")
        self.assertEqual(self.quietly(cuda.compiled, self.torch), (path, ""))
        self.assertEqual(len(self.runs()), 1)
        for argument in ("-D_GLIBCXX_USE_CXX11_ABI=1", "-lc10_cuda", os.path.join(self.folder, "cuda", "include")):
            self.assertIn(argument, self.runs()[0])

    def test_another_torch_has_another(self):
        path, _ = self.quietly(cuda.compiled, self.torch)
        self.torch.__version__ = "2.13.0+cu130"
        self.assertNotEqual(self.quietly(cuda.compiled, self.torch)[0], path)
        self.torch._C._GLIBCXX_USE_CXX11_ABI = False
        self.quietly(cuda.compiled, self.torch)
        self.assertEqual(len(self.runs()), 3)

    def test_jobs_that_start_together(self):
        self.compiler("sleep 0.5; echo object >\"$object\"")
        code = "import test_cuda_allocator as t; print(t.cuda.compiled(t.look_alike(%r)))" % self.torch.__file__
        jobs = [
            subprocess.Popen([sys.executable, "-c", code], cwd=os.path.dirname(os.path.abspath(__file__)),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(8)]
        outputs = [job.communicate() for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0] * 8, outputs)
        self.assertEqual(len({path for path, _ in outputs}), 1)
        self.assertEqual(sum(b"compiling" in said for _, said in outputs), 1)
        self.assertEqual(len(self.runs()), 1)

    def test_what_others_can_write_is_not_loaded(self):
        path, _ = self.quietly(cuda.compiled, self.torch)
        folder = os.path.dirname(path)
        os.chmod(self.folder, 0o755)
        for what, mode in ((path, 0o777), (folder, 0o777), (os.path.join(self.folder, "state"), 0o777)):
            for place in (self.folder, os.path.join(self.folder, "state"), os.path.dirname(folder), folder, path):
                os.chmod(place, 0o755)
            self.assertEqual(self.quietly(cuda.compiled, self.torch)[0], path)
            os.chmod(what, mode)
            self.assertEqual(self.why_not(), what + " can be written by other users; chmod go-w helps")
            os.chmod(what, 0o755)
            if os.getuid() == 0:
                os.chown(what, 54321, 54321)
                self.assertEqual(self.why_not(), what + " belongs to another user")
                os.chown(what, 0, 0)
        self.assertEqual(len(self.runs()), 1)

    def test_a_link_leads_to_what_others_can_write(self):
        path, _ = self.quietly(cuda.compiled, self.torch)
        os.chmod(self.folder, 0o755)
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.rename(os.path.join(self.folder, "state"), elsewhere)
        os.symlink(elsewhere, os.path.join(self.folder, "state"))
        self.assertEqual(self.quietly(cuda.compiled, self.torch)[0], path)
        os.chmod(elsewhere, 0o777)
        self.assertEqual(self.why_not(), elsewhere + " can be written by other users; chmod go-w helps")

    def test_the_umask_does_not_open_the_cache(self):
        os.chmod(self.folder, 0o755)
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        path, _ = self.quietly(cuda.compiled, self.torch)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        self.assertEqual(self.quietly(cuda.compiled, self.torch), (path, ""))

    def test_without_a_home_there_is_no_cache(self):
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "relative", "HOME": "also/relative"}):
            self.assertIn("no home", self.why_not())

    def test_a_compiler_that_fails(self):
        self.compiler("echo 'In file included from x'; echo 'a.h:1: error: no such thing' >&2; echo half >\"$object\"; exit 1")
        self.assertRegex(self.why_not(), "torch 2.11.0 cannot be compiled, .*compiler said: a.h:1: error: no such thing$")
        self.assertEqual(os.listdir(os.path.join(self.folder, "state", "salus", "torch")), ["lock"])
        self.compiler("exit 3")
        self.assertRegex(self.why_not(), "exit status 3$")

    def test_what_is_missing(self):
        with mock.patch.dict(os.environ, {"CXX": "", "PATH": self.folder}):
            self.assertIn("no C++ compiler", self.why_not())
        with mock.patch.object(cuda, "_cuda_headers", side_effect=cuda.Impossible("no\nheaders")):
            self.assertEqual(self.why_not(), "no headers")
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.file("state/a-file")}):
            self.assertIn("cannot be compiled: ", self.why_not())
        os.unlink(os.path.join(self.folder, "packages/torch/include/c10/cuda/CUDACachingAllocator.h"))
        self.assertIn("torch's headers", self.why_not())
        self.torch.version.cuda = None
        self.assertIn("without CUDA", self.why_not())
        self.assertEqual(self.runs(), [])

    def test_headers_in_parts(self):
        nvidia = [os.path.dirname(self.file("packages/nvidia/%s/include/%s" % place)) for place in (
            ("cuda_nvcc", "crt/host_defines.h"), ("cuda_runtime", "cuda.h"), ("cuda_runtime", "cuda_runtime_api.h"))]
        exists = os.path.exists
        with mock.patch("os.path.exists", lambda path: path.startswith(self.folder + "/packages") and exists(path)):
            self.assertEqual(cuda._cuda_headers(self.torch), [os.path.dirname(nvidia[0]), nvidia[1]])
            os.unlink(os.path.join(nvidia[1], "cuda.h"))
            with self.assertRaises(cuda.Impossible):
                cuda._cuda_headers(self.torch)


class Install(Folder):
    def test_what_is_no_library(self):
        self.assertIn("cannot be loaded", self.why_not())

    def test_what_is_passed(self):
        real = shutil.which("cc")
        if not real:
            print("no cc: SKIPPED")
            return
        source = self.file("check.c", """
            #include <stdint.h>
            int salus_torch_install(const int64_t* api) {
                if (api[0] != 3 || api[1] != 3 || api[2] != 0x1234) return 9;
                for (int i = 0; i < 9; ++i) if (api[3 + i] != 100 + i) return 9;
                static int calls;
                return calls++ ? 4 : 0;
            }""")
        self.compiler("exec %s -shared -fPIC -o \"$object\" '%s'" % (real, source))
        names = ["salus_" + name for name in (
            "alloc_on", "free", "used_on", "wait_for_stream", "owns", "get_usage", "reset_peaks", "give_back", "error_text")]
        client = types.SimpleNamespace(address=0x1234, device_ordinal=3, function_address=lambda name: 100 + names.index(name))
        self.assertEqual(self.quietly(cuda.install, self.torch, client)[0], None)
        self.assertRegex(self.quietly(cuda.install, self.torch, client)[0], "already installed$")

    def test_the_names_are_those_of_the_source(self):
        struct = re.search(r"struct salus_torch_api \{(.*?)\};", read(ALLOCATOR), re.DOTALL).group(1)
        self.assertEqual(re.findall(r"(\w+);", struct), [name for name, _ in cuda._Api._fields_])


if __name__ == "__main__":
    unittest.main()
