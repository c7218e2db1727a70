"""The adaptor where the service shares a GPU, with stand-ins for torch and the client library."""

import contextlib
import io
import os
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from salus import adaptor, cuda, library, torch_hooks  # noqa: E402


class Torch:
    """Starts CUDA when it is told to."""

    def __init__(self, version):
        self.__version__ = "2.11.0"
        self.version = types.SimpleNamespace(cuda=version)
        self.cuda = types.SimpleNamespace(_lazy_call=self._queue, _lazy_init=self.start_cuda)
        self._C = types.SimpleNamespace()
        self.queued = []

    def _queue(self, call):
        self.queued.append(call)

    def start_cuda(self):
        for call in self.queued:
            call()


class Hooks:
    def __init__(self, torch, device):
        self.device, self.enabled, self.has_graphs = device, True, False
        Hooks.last = self

    def install(self):
        pass

    def hook_graphs(self):
        self.has_graphs = True

    def disable(self):
        self.enabled = False

    def finished(self):
        pass


class Client:
    device, attached, why_not = "cuda", True, ""
    made = 0

    def __init__(self):
        Client.made += 1
        self.begun = []

    def begin(self, kind):
        self.begun.append(kind)

    def end(self):
        pass

    def answer(self):
        pass

    def doubt(self):
        pass

    def fetched(self):
        pass

    def leave(self):
        pass

    def count(self, iterations):
        pass

    def join(self, kind):
        pass

    def set_threaded(self, threaded):
        pass


class OnGpu(unittest.TestCase):
    def setUp(self):
        Client.made, Client.attached, Client.device = 0, True, "cuda"
        Hooks.last = None
        self.installed = []
        self.why_not = None
        for target, name, value in ((torch_hooks, "Hooks", Hooks), (library, "Attachment", Client),
                                    (cuda, "install", self._install)):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.dict(os.environ, {"SALUS_DEVICE": "cuda", "SALUS_JOB": "1"})
        patch.start()
        self.addCleanup(patch.stop)

    def _install(self, torch, client):
        self.installed.append((torch, client))
        return self.why_not

    def import_torch(self, version="13.0"):
        """What was said, and the torch."""
        torch = Torch(version)
        said = self.said = io.StringIO()
        with contextlib.redirect_stderr(said):
            adaptor._torch_is_here(torch)
        return torch

    def start_cuda(self, torch):
        with contextlib.redirect_stderr(self.said):
            torch.start_cuda()

    def test_a_torch_without_cuda_is_left_alone(self):
        torch = self.import_torch(version=None)
        self.assertIn("built without CUDA; the job runs without sharing", self.said.getvalue())
        self.assertEqual(torch.queued, [])

    def test_it_attaches_when_cuda_starts_and_not_before(self):
        torch = self.import_torch()
        Hooks.last.device.begin(1)  # a model on the CPU is called
        self.assertEqual(Client.made, 0)
        self.start_cuda(torch)
        self.assertEqual(Client.made, 1)
        self.assertEqual(len(self.installed), 1)
        Hooks.last.device.begin(2)
        self.assertEqual(self.installed[0][1].begun, [2])
        self.assertTrue(Hooks.last.has_graphs)
        self.assertEqual(self.said.getvalue(), "")
        self.start_cuda(torch)
        self.assertEqual(Client.made, 1)

    def test_a_process_by_itself_joins_before_cuda_starts(self):
        del os.environ["SALUS_JOB"]
        joined = []
        with mock.patch.object(library, "join", lambda *who: joined.append(Client.made)):
            torch = self.import_torch()
            self.assertEqual(joined, [])
            torch.cuda._lazy_init()
        self.assertEqual(joined[0], 0, "before the client is there")
        self.assertEqual(Client.made, 1)

    def test_without_the_allocator_it_takes_turns(self):
        self.why_not = "there is no C++ compiler"
        self.start_cuda(self.import_torch())
        self.assertEqual(self.said.getvalue(),
                         "salus: there is no C++ compiler; the job takes turns, but does not share memory\n")
        Hooks.last.device.begin(1)
        self.assertEqual(self.installed[0][1].begun, [1])

    def test_without_a_service_it_runs_by_itself(self):
        Client.attached, Client.why_not = False, "no service runs"
        self.start_cuda(self.import_torch())
        self.assertIn("no service runs; the job runs without sharing", self.said.getvalue())
        self.assertFalse(Hooks.last.enabled)

    def test_a_service_that_shares_the_host_by_now(self):
        Client.device = "host"
        self.start_cuda(self.import_torch())
        self.assertEqual(self.installed, [])
        self.assertIn("does not share a GPU any more", self.said.getvalue())


if __name__ == "__main__":
    unittest.main()
