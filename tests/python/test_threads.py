"""threads.py: what is told of a script's own threads, and when."""

import concurrent.futures
import multiprocessing
import os
import signal
import sys
import threading
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from salus import threads  # noqa: E402


class Told(unittest.TestCase):
    def setUp(self):
        names = ("start_new_thread", "start_new", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread")
        for target, name in [(threading.Thread, "start"), (threads, "_watcher"), (threads, "_start_was_hidden"),
                             *((module, name) for module in (threads._thread, threading) for name in names)]:
            if hasattr(target, name):
                patch = mock.patch.object(target, name, getattr(target, name))
                patch.start()
                self.addCleanup(patch.stop)
        threads.watch_starts()
        self.told = []
        self.threads = threads.Threads(self.told.append)
        self.threads.watch()
        self.go_on = threading.Event()
        self.addCleanup(self.go_on.set)

    def test_before_a_thread_runs(self):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(list(self.told)))
        thread.start()
        thread.join()
        self.assertEqual(seen, [[True]])

    def test_when_the_last_of_them_has_ended(self):
        running = [threading.Thread(target=self.go_on.wait) for _ in range(2)]
        for thread in running:
            thread.start()
        self.assertTrue(self.threads.look_again())
        self.go_on.set()
        for thread in running:
            thread.join()
        self.assertFalse(self.threads.look_again())
        self.assertEqual(self.told, [True, False])

    def test_threads_of_pools_count_whoever_starts_them(self):
        module = types.ModuleType("tqdm.contrib.concurrent")
        exec("def submit(pool, task):\n    return pool.submit(task)", module.__dict__)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            module.submit(pool, lambda: None).result()
        self.assertEqual(self.told, [True])

    def test_threads_of_the_compiler_do_not_count(self):
        module = types.ModuleType("torch._inductor.async_compile")
        exec("def submit(pool, task):\n    return pool.submit(task)", module.__dict__)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            module.submit(pool, lambda: None).result()
            self.assertEqual(self.told, [])

    def test_rays_other_threads_wait_for_the_one_that_runs_the_script(self):
        module = types.ModuleType("ray.air._internal.util")
        exec("import threading\nclass RunnerThread(threading.Thread):\n    pass", module.__dict__)
        seen, started = [], threading.Event()

        def script():
            started.wait()
            seen.append(self.threads.look_again())
            own = threading.Thread(target=self.go_on.wait)
            own.start()
            seen.append(self.threads.look_again())

        runner = module.RunnerThread(target=script)
        runner.start()
        started.set()
        runner.join()
        self.assertEqual(seen, [False, True], "the script's own threads count in any case")
        self.assertEqual(self.told, [True, False, True])

    def test_a_runner_of_ray_counts_for_all_others(self):
        module = types.ModuleType("ray.air._internal.util")
        exec("import threading\nclass RunnerThread(threading.Thread):\n    pass", module.__dict__)
        runner = module.RunnerThread(target=self.go_on.wait)
        runner.start()
        self.assertTrue(self.threads.look_again())
        self.go_on.set()
        runner.join()

    def test_a_name_says_nothing(self):
        thread = threading.Thread(target=self.go_on.wait, name="Control")
        thread.start()
        self.go_on.set()
        thread.join()
        self.assertEqual(self.told, [True])

    def test_one_that_nobody_can_look_for_counts_for_ever(self):
        threads._thread.start_new_thread(self.go_on.wait, ())
        self.go_on.set()
        self.assertTrue(self.threads.look_again())
        self.assertEqual(self.told, [True])

    def test_one_that_was_started_before_counts_as_well(self):
        threads._watcher = None
        threads._thread.start_new_thread(self.go_on.wait, ())
        told = []
        threads.Threads(told.append).watch()
        self.assertEqual(told, [True])

    def test_what_a_script_puts_into_a_queue_is_pickled_by_its_own_methods(self):
        module = types.ModuleType("torch.utils.data.dataloader")
        exec("def send(queue, index):\n    queue.put(index)", module.__dict__)
        indices, own = multiprocessing.Queue(), multiprocessing.Queue()
        for queue in (indices, own):
            self.addCleanup(queue.join_thread)  # once it is closed: the next test must not see its thread
            self.addCleanup(queue.close)
        module.send(indices, 1)
        self.assertEqual(self.told, [])
        own.put(1)
        self.assertEqual(self.told, [True])

    def test_a_signals_handler_may_start_one_while_we_look(self):
        def tell(others):
            self.told.append(others)
            if not others:
                signal.raise_signal(signal.SIGUSR1)

        started = []

        def handler(*_):
            started.append(threading.Thread(target=self.go_on.wait))
            started[-1].start()

        self.threads._tell = tell
        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        self.threads.look_again()
        self.assertTrue(self.threads.look_again(), "the handler's thread runs")
        self.go_on.set()
        started[0].join()


if __name__ == "__main__":
    unittest.main()
