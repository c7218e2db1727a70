"""Settles what gates cost and what they block on a real GPU. Prints a table, in less than a minute.

A gate is a cuStreamWaitValue32 on a word of host memory: closed (0), it stops the stream; open (1), it lets it go on.
"""

import ctypes
import mmap
import os
import queue
import statistics
import sys
import threading
import time
import traceback
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_ubyte, c_ulonglong, c_ushort, c_void_p

import torch

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 cycles) {
    .reg .u64 %rd<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
"""
ENTRY = b"spin"
CYCLES_10_US = 18_000  # of an H200 at some 1.8 GHz

PAGE = 4096
PIECE = 2 << 20  # the granularity of cuMemCreate
NOT_READY = 600
NON_BLOCKING = 1
DEVICE_MAP = 2
WAIT_AND = 2

CALL_LIMIT_S = 0.2  # a call that takes longer counts as blocked
STILL_S = 0.1  # a thread whose launches make no progress for so long is blocked
PATIENCE_S = 5  # for what must come once all gates are open
TRIALS_UNTIL_S = 48
GIVE_UP_AT_S = 57
STARTED = time.monotonic()


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationFlags(ctypes.Structure):
    _fields_ = [("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4)]


class AllocationProperties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location), ("win32", c_void_p), ("flags", AllocationFlags)]


class AccessDescription(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


P = ctypes.POINTER
FUNCTIONS = {
    "cuDriverGetVersion": [P(c_int)],
    "cuGetErrorName": [c_int, P(c_char_p)],
    "cuDeviceGetAttribute": [P(c_int), c_int, c_int],
    "cuCtxGetCurrent": [P(c_void_p)],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxSynchronize": [],
    "cuModuleLoadData": [P(c_void_p), c_char_p],
    "cuModuleGetFunction": [P(c_void_p), c_void_p, c_char_p],
    "cuModuleUnload": [c_void_p],
    "cuLaunchKernel": [c_void_p] + 7 * [c_uint] + [c_void_p, P(c_void_p), P(c_void_p)],
    "cuStreamCreate": [P(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamQuery": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamIsCapturing": [c_void_p, P(c_int)],
    "cuStreamWaitValue32_v2": [c_void_p, c_uint64, c_uint32, c_uint],
    "cuStreamWriteValue32_v2": [c_void_p, c_uint64, c_uint32, c_uint],
    "cuEventCreate": [P(c_void_p), c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventElapsedTime": [P(c_float), c_void_p, c_void_p],
    "cuMemGetInfo_v2": [P(c_size_t), P(c_size_t)],
    "cuMemAlloc_v2": [P(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemHostRegister_v2": [c_void_p, c_size_t, c_uint],
    "cuMemHostUnregister": [c_void_p],
    "cuMemHostGetDevicePointer_v2": [P(c_uint64), c_void_p, c_uint],
    "cuMemCreate": [P(c_uint64), c_size_t, P(AllocationProperties), c_ulonglong],
    "cuMemRelease": [c_uint64],
    "cuMemAddressReserve": [P(c_uint64), c_size_t, c_size_t, c_uint64, c_ulonglong],
    "cuMemAddressFree": [c_uint64, c_size_t],
    "cuMemMap": [c_uint64, c_size_t, c_size_t, c_uint64, c_ulonglong],
    "cuMemSetAccess": [c_uint64, c_size_t, P(AccessDescription), c_size_t],
    "cuMemUnmap": [c_uint64, c_size_t],
}


class Cuda:
    """The driver's functions, each as it is and gives its status. A call lets other Python threads run."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        for name, parameters in FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = parameters, c_int
            setattr(self, name, function)

    def error(self, status):
        name = c_char_p()
        known = self.cuGetErrorName(status, byref(name)) == 0 and name.value
        return name.value.decode() if known else "CUDA error %d" % status

    def must(self, name, *arguments):
        status = getattr(self, name)(*arguments)
        if status != 0:
            raise RuntimeError("%s: %s" % (name, self.error(status)))

    def made(self, kind, name, *arguments):
        """What a function makes and returns through its first parameter."""
        value = kind()
        self.must(name, byref(value), *arguments)
        return value


class Page:
    """A page of a memfd, which another process could have as well."""

    def __init__(self):
        descriptor = os.memfd_create("gates", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, PAGE)
        self._mapping = mmap.mmap(descriptor, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(descriptor)
        self.words = (c_uint32 * (PAGE // 4)).from_buffer(self._mapping)
        self.address = ctypes.addressof(self.words)


class Gate:
    """One word of a registered page."""

    def __init__(self, page, start, index):
        self.words, self.index = page.words, index
        self.address = start + 4 * index
        self.open()

    def open(self):
        self.words[self.index] = 1

    def close(self):
        self.words[self.index] = 0


class Probe:
    def __init__(self):
        self.device = torch.cuda.current_device()
        self.cuda = Cuda()
        self.context = self.cuda.made(c_void_p, "cuCtxGetCurrent")
        if not self.context:
            raise RuntimeError("torch has made no context current")
        module = self.cuda.made(c_void_p, "cuModuleLoadData", PTX)
        self.kernel = self.cuda.made(c_void_p, "cuModuleGetFunction", module, ENTRY)
        self.no_cycles, self.some_cycles = self.parameters(0), self.parameters(CYCLES_10_US)
        self.gated, self.other = self.stream(), self.stream()
        self.page = Page()
        self.cuda.must("cuMemHostRegister_v2", self.page.address, PAGE, DEVICE_MAP)
        self.start = self.cuda.made(c_uint64, "cuMemHostGetDevicePointer_v2", self.page.address, 0).value
        # Each on a cache line of its own.
        self.gate, self.plug, self.done = (Gate(self.page, self.start, 16 * i) for i in range(3))

    def parameters(self, cycles):
        value = c_uint64(cycles)
        array = (c_void_p * 1)(ctypes.addressof(value))
        array.keeps = value  # it must live as long
        return array

    def stream(self):
        return self.cuda.made(c_void_p, "cuStreamCreate", NON_BLOCKING)

    def launch(self, stream, parameters=None):
        return self.cuda.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters or self.no_cycles, None)

    def must_launch(self, stream, parameters=None):
        status = self.launch(stream, parameters)
        if status != 0:
            raise RuntimeError("cuLaunchKernel: " + self.cuda.error(status))

    def wait_at(self, gate, stream):
        self.cuda.must("cuStreamWaitValue32_v2", stream, gate.address, 1, WAIT_AND)

    def open_all(self):
        for gate in (self.gate, self.plug):
            gate.open()

    def drain(self, stream):
        """Not by cuStreamSynchronize, which could wait for ever."""
        end = time.monotonic() + PATIENCE_S
        while True:
            status = self.cuda.cuStreamQuery(stream)
            if status == 0:
                return
            if status != NOT_READY:
                raise RuntimeError("cuStreamQuery: " + self.cuda.error(status))
            if time.monotonic() > end:
                raise RuntimeError("a stream does not go on although its gates are open")

    # --- (e) whether it works at all

    def facts(self):
        version = self.cuda.made(c_int, "cuDriverGetVersion").value
        print("%s, driver %d, torch %s" % (torch.cuda.get_device_name(self.device), version, torch.__version__))
        print("a page of a shared memfd can be registered: yes; its device pointer is the host's: %s"
              % ("yes" if self.start == self.page.address else "no"))
        for number, name in ((91, "host pointers for registered memory"), (92, "stream operations on memory, first version"),
                             (122, "64-bit stream operations on memory"), (123, "CU_STREAM_WAIT_VALUE_NOR"), (133, "MPS")):
            print("attribute %d, %s: %d" % (number, name, self.cuda.made(c_int, "cuDeviceGetAttribute", number, self.device).value))

    # --- (a) an open gate in device time

    def device_time_us(self, gates, parameters, kernels):
        """All is queued behind a closed plug first, so that the CPU's time does not count."""
        begin, end = (self.cuda.made(c_void_p, "cuEventCreate", 0) for _ in range(2))
        self.plug.close()
        try:
            self.wait_at(self.plug, self.gated)
            self.cuda.must("cuEventRecord", begin, self.gated)
            for _ in range(kernels):
                if gates:
                    self.wait_at(self.gate, self.gated)
                self.must_launch(self.gated, parameters)
            self.cuda.must("cuEventRecord", end, self.gated)
        finally:
            self.plug.open()
        self.drain(self.gated)
        elapsed = self.cuda.made(c_float, "cuEventElapsedTime", begin, end).value
        for event in (begin, end):
            self.cuda.must("cuEventDestroy_v2", event)
        return 1000 * elapsed

    def cost_of_open_gates(self, kernels=100, samples=15):
        for name, parameters in (("empty kernels", self.no_cycles), ("kernels of about 10 us", self.some_cycles)):
            plain, gated = [], []
            for _ in range(samples + 2):
                plain.append(self.device_time_us(False, parameters, kernels) / kernels)
                gated.append(self.device_time_us(True, parameters, kernels) / kernels)
            plain_us, gated_us = statistics.median(plain[2:]), statistics.median(gated[2:])
            print("open gate between %s: %.2f us of device time (%.2f us a kernel without, %.2f with)"
                  % (name, gated_us - plain_us, plain_us, gated_us))

    # --- (b) how long a stream takes to go on

    def wake_up_us(self, closed_s, number):
        words, index = self.done.words, self.done.index
        self.gate.close()
        try:
            self.wait_at(self.gate, self.gated)
            self.cuda.must("cuStreamWriteValue32_v2", self.gated, self.done.address, number, 0)
            time.sleep(closed_s)
            if words[index] == number:
                raise RuntimeError("a closed gate did not stop the stream")
        finally:
            opened = time.perf_counter_ns()
            self.gate.open()
        end = opened + PATIENCE_S * 10**9
        while words[index] != number:
            if time.perf_counter_ns() > end:
                raise RuntimeError("a stream does not go on although its gate is open")
        return (time.perf_counter_ns() - opened) / 1000

    def wake_up(self):
        number = 1000
        for closed_ms, samples in ((0.1, 60), (1, 60), (10, 30), (100, 10)):
            times = []
            for _ in range(samples):
                number += 1
                times.append(self.wake_up_us(closed_ms / 1000, number))
            print("goes on after %5.1f ms closed: median %.1f us, largest %.1f us" % (closed_ms, statistics.median(times), max(times)))
        self.drain(self.gated)

    # --- (f) the CPU's time for a gate

    def calls_us(self, call, calls=200, rounds=7):
        medians = []
        for _ in range(rounds):
            begin = time.perf_counter_ns()
            for _ in range(calls):
                call()
            medians.append((time.perf_counter_ns() - begin) / calls / 1000)
            self.drain(self.gated)
        return statistics.median(medians)

    def cost_of_calls(self):
        cuda, version = self.cuda, c_int()
        stream, address = self.gated, self.gate.address
        trivial = self.calls_us(lambda: cuda.cuDriverGetVersion(byref(version)))
        launch = self.calls_us(lambda: self.launch(stream))
        gate = self.calls_us(lambda: cuda.cuStreamWaitValue32_v2(stream, address, 1, WAIT_AND))
        both = self.calls_us(lambda: (cuda.cuStreamWaitValue32_v2(stream, address, 1, WAIT_AND), self.launch(stream)))
        print("CPU time of a call, with that of Python: cuStreamWaitValue32 %.2f us, cuLaunchKernel %.2f us, one after the other "
              "%.2f us; of Python alone %.2f us" % (gate, launch, both, trivial))

    # --- (d) how much fits behind a closed gate

    def room(self, gates, samples=3):
        counts = []
        for _ in range(samples):
            with Behind(self, self.gated, is_full=True, gates=gates) as queued:
                counts.append("%d%s" % (queued.count, "" if queued.is_blocked else " and more"))
        return ", ".join(counts)

    def rooms(self):
        print("launches behind a closed gate until one blocks: %s; with an open gate before each: %s"
              % (self.room(False), self.room(True)))


class Behind:
    """While it lasts a gate in the stream is closed, with ten launches queued behind it, or as many as fit and one that blocks."""

    LIMIT = 20_000

    def __init__(self, probe, stream, is_full, gates=False):
        self.probe, self.stream, self.is_full, self.gates = probe, stream, is_full, gates
        self.count, self.is_blocked, self._stop, self._failure, self._thread = 0, False, False, None, None

    def _launch(self):
        if self.gates:
            self.probe.wait_at(self.probe.plug, self.stream)
        self.probe.must_launch(self.stream)
        self.count += 1

    def _fill(self):
        try:
            self.probe.cuda.must("cuCtxSetCurrent", self.probe.context)
            while not self._stop and self.count < self.LIMIT:
                self._launch()
        except RuntimeError as failure:
            self._failure = failure

    def __enter__(self):
        self.probe.gate.close()
        try:
            self.probe.wait_at(self.probe.gate, self.stream)
            if self.is_full:
                self._thread = threading.Thread(target=self._fill, daemon=True)
                self._thread.start()
                self._wait_until_still()
            else:
                for _ in range(10):
                    self._launch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_until_still(self):
        before, since, end = self.count, time.monotonic(), time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._thread.is_alive():
            time.sleep(0.005)
            if self.count != before:
                before, since = self.count, time.monotonic()
            elif time.monotonic() - since > STILL_S:
                self.is_blocked = True
                return

    def __exit__(self, *_):
        self._stop = True
        self.probe.gate.open()
        if self._thread:
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                raise RuntimeError("a launch stays blocked although the gate is open")
        if self._failure:
            raise self._failure
        self.probe.drain(self.stream)


class Caller:
    """A thread of its own with the context current: what it calls may block."""

    def __init__(self, probe):
        self._probe, self._calls = probe, queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        self._probe.cuda.cuCtxSetCurrent(self._probe.context)
        while True:
            call, outcome, is_done = self._calls.get()
            begin = time.perf_counter_ns()
            try:
                outcome["status"] = call()
            except Exception as failure:  # the table shows it
                outcome["status"] = repr(failure)
            outcome["us"] = (time.perf_counter_ns() - begin) / 1000
            is_done.set()

    def call(self, call):
        outcome, is_done = {}, threading.Event()
        self._calls.put((call, outcome, is_done))
        return outcome, is_done


# --- (c) the calls of another thread. Each is a generator: it prepares with the gate open, yields what is called while the
# gate is closed, and cleans up when it is open again.


def simple(make_call):
    def trial(probe):
        yield make_call(probe)
    return trial


def creation(function, undo, kind, *arguments):
    def trial(probe):
        value = kind()
        yield lambda: getattr(probe.cuda, function)(byref(value), *arguments)
        probe.cuda.must(undo, value)
    return trial


def mem_free(probe):
    start = probe.cuda.made(c_uint64, "cuMemAlloc_v2", PIECE)
    yield lambda: probe.cuda.cuMemFree_v2(start)


def stream_destroy(probe):
    stream = probe.stream()
    yield lambda: probe.cuda.cuStreamDestroy_v2(stream)


def event_call(make_call):
    """On an event that was recorded on another stream, and has passed."""
    def trial(probe):
        event = probe.cuda.made(c_void_p, "cuEventCreate", 0)
        probe.cuda.must("cuEventRecord", event, probe.other)
        probe.drain(probe.other)
        yield make_call(probe, event)
        probe.drain(probe.other)
        probe.cuda.must("cuEventDestroy_v2", event)
    return trial


def block_call(make_call):
    def trial(probe):
        start = probe.cuda.made(c_uint64, "cuMemAlloc_v2", PIECE)
        source = ctypes.create_string_buffer(64)
        yield make_call(probe, start, source)
        probe.drain(probe.other)
        probe.cuda.must("cuMemFree_v2", start)
    return trial


def properties_of(probe):
    return AllocationProperties(type=1, handle_types=1, location=Location(1, probe.device))


def mem_create(probe):
    handle, properties = c_uint64(), properties_of(probe)
    yield lambda: probe.cuda.cuMemCreate(byref(handle), PIECE, byref(properties), 0)
    probe.cuda.must("cuMemRelease", handle)


def mapping_call(which):
    """Memory goes through these stages; one of them is tried, those before it are its preparation."""
    stages = ("map", "access", "unmap", "release")

    def trial(probe):
        cuda, properties = probe.cuda, properties_of(probe)
        access = AccessDescription(Location(1, probe.device), 3)
        start = cuda.made(c_uint64, "cuMemAddressReserve", PIECE, 0, 0, 0)
        handle = cuda.made(c_uint64, "cuMemCreate", PIECE, byref(properties), 0)
        calls = {
            "map": lambda: cuda.cuMemMap(start, PIECE, 0, handle, 0),
            "access": lambda: cuda.cuMemSetAccess(start, PIECE, byref(access), 1),
            "unmap": lambda: cuda.cuMemUnmap(start, PIECE),
            "release": lambda: cuda.cuMemRelease(handle),
        }
        for stage in stages:
            if stage == which:
                yield calls[stage]
            elif calls[stage]() != 0:
                raise RuntimeError("%s failed around %s" % (stage, which))
        cuda.must("cuMemAddressFree", start, PIECE)
    return trial


def host_register(probe):
    page = Page()
    yield lambda: probe.cuda.cuMemHostRegister_v2(page.address, PAGE, DEVICE_MAP)
    probe.cuda.must("cuMemHostUnregister", page.address)


def host_unregister(probe):
    page = Page()
    probe.cuda.must("cuMemHostRegister_v2", page.address, PAGE, DEVICE_MAP)
    yield lambda: probe.cuda.cuMemHostUnregister(page.address)


def mem_info(probe):
    free, total = c_size_t(), c_size_t()
    yield lambda: probe.cuda.cuMemGetInfo_v2(byref(free), byref(total))


def is_capturing(probe):
    status = c_int()
    yield lambda: probe.cuda.cuStreamIsCapturing(probe.gated, byref(status))


TRIALS = [
    ("cuCtxSetCurrent", simple(lambda probe: lambda: probe.cuda.cuCtxSetCurrent(probe.context))),
    ("cuStreamCreate", creation("cuStreamCreate", "cuStreamDestroy_v2", c_void_p, NON_BLOCKING)),
    ("cuStreamDestroy, idle stream", stream_destroy),
    ("cuStreamQuery, idle stream", simple(lambda probe: lambda: probe.cuda.cuStreamQuery(probe.other))),
    ("cuStreamSynchronize, idle stream", simple(lambda probe: lambda: probe.cuda.cuStreamSynchronize(probe.other))),
    ("cuStreamIsCapturing, gated stream", is_capturing),
    ("cuLaunchKernel, other stream", simple(lambda probe: lambda: probe.launch(probe.other))),
    ("cuStreamWriteValue32, other stream",
     simple(lambda probe: lambda: probe.cuda.cuStreamWriteValue32_v2(probe.other, probe.done.address, 1, 0))),
    ("cuStreamWaitValue32 open, other stream",
     simple(lambda probe: lambda: probe.cuda.cuStreamWaitValue32_v2(probe.other, probe.plug.address, 1, WAIT_AND))),
    ("cuEventCreate", creation("cuEventCreate", "cuEventDestroy_v2", c_void_p, 0)),
    ("cuEventRecord, other stream", event_call(lambda probe, event: lambda: probe.cuda.cuEventRecord(event, probe.other))),
    ("cuEventQuery, passed event", event_call(lambda probe, event: lambda: probe.cuda.cuEventQuery(event))),
    ("cuMemGetInfo", mem_info),
    ("cuMemAlloc, 2 MiB", creation("cuMemAlloc_v2", "cuMemFree_v2", c_uint64, PIECE)),
    ("cuMemFree, 2 MiB", mem_free),
    ("cuMemCreate", mem_create),
    ("cuMemMap", mapping_call("map")),
    ("cuMemSetAccess", mapping_call("access")),
    ("cuMemUnmap", mapping_call("unmap")),
    ("cuMemRelease", mapping_call("release")),
    ("cuMemcpyHtoD, 64 bytes",
     block_call(lambda probe, start, source: lambda: probe.cuda.cuMemcpyHtoD_v2(start, ctypes.addressof(source), 64))),
    ("cuMemcpyDtoDAsync, other stream",
     block_call(lambda probe, start, _: lambda: probe.cuda.cuMemcpyDtoDAsync_v2(start.value + 4096, start, 64, probe.other))),
    ("cuMemHostRegister", host_register),
    ("cuMemHostUnregister, unrelated page", host_unregister),
    ("cuModuleLoadData", creation("cuModuleLoadData", "cuModuleUnload", c_void_p, PTX)),
    ("cuCtxSynchronize", simple(lambda probe: lambda: probe.cuda.cuCtxSynchronize())),
]


def attempt(probe, caller, trial, stream, is_full):
    steps = trial(probe)
    call = next(steps)
    with Behind(probe, stream, is_full) as queued:
        outcome, is_done = caller.call(call)
        blocks = not is_done.wait(CALL_LIMIT_S)
        filled = queued.is_blocked == is_full
    if not is_done.wait(PATIENCE_S):
        raise RuntimeError("a call stays blocked although the gate is open")
    probe.drain(probe.other)
    if outcome["status"] != 0:
        return probe.cuda.error(outcome["status"]) if isinstance(outcome["status"], int) else outcome["status"]
    next(steps, None)
    return ("blocks" if blocks else "%.0f us" % outcome["us"]) + ("" if filled else " (queue not full)")


def what_blocks(probe):
    """A gated stream of its own is created as non-blocking; the null stream is the legacy one, on which torch runs."""
    caller = Caller(probe)
    situations = [("own, 10 queued", probe.gated, False), ("own, full", probe.gated, True), ("null, 10 queued", None, False),
                  ("null, full", None, True)]
    print("\nwhat a call of another thread does while a gate is closed, by the gated stream and what is queued behind the gate:")
    print("%-40s" % "" + "".join("%-18s" % name for name, _, _ in situations))
    for name, trial in TRIALS:
        print("%-40s" % name, end="", flush=True)
        for _, stream, is_full in situations:
            is_late = time.monotonic() - STARTED > TRIALS_UNTIL_S
            print("%-18s" % ("no time left" if is_late else attempt(probe, caller, trial, stream, is_full)), end="", flush=True)
        print()


def watch():
    """The last resort: a driver call in which the main thread stays for ever."""
    time.sleep(max(0.0, GIVE_UP_AT_S - (time.monotonic() - STARTED)))
    print("\ngave up after %d s" % GIVE_UP_AT_S, flush=True)
    os._exit(3)


def main():
    threading.Thread(target=watch, daemon=True).start()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    probe = Probe()
    failures = 0
    for part in (probe.facts, probe.cost_of_open_gates, probe.wake_up, probe.cost_of_calls, probe.rooms, lambda: what_blocks(probe)):
        try:
            part()
        except RuntimeError:
            failures += 1
            print("\nfailed:", traceback.format_exc(), flush=True)
        finally:
            probe.open_all()
        sys.stdout.flush()
    print("%.0f s in all" % (time.monotonic() - STARTED), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    status = 2
    try:
        status = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # threads may be in the driver
