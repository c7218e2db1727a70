"""libsalus.so, the client library. Its contract is include/salus/salus.h."""

import ctypes
import functools
import os

OK, NO_SERVICE, MISUSE, TOO_LARGE, SYSTEM, WAITING = range(6)
_TRAINING, _ANSWER = 1, 2  # salus_work

# A thread that waits for its turn handles signals (Ctrl-C) at least this often.
_LOOK_AFTER_SIGNALS_NS = 200_000_000


class Counters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_uint64)
        for name in (
            "iterations", "turns", "busy_ns", "waited_ns", "lane_bytes", "missed_bytes", "lane_peak", "private_bytes",
            "evacuations", "evacuated_bytes", "page_outs", "attachments")
    ] + [("shared", ctypes.c_int32)]


def _path():
    """SALUS_LIBRARY, else what is installed two folders above this package, else what the loader finds."""
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "libsalus.so.1")
    return os.environ.get("SALUS_LIBRARY") or (beside if os.path.exists(beside) else "libsalus.so.1")


def _load():
    library = ctypes.CDLL(_path())
    client = ctypes.c_void_p
    for name, arguments in {
        "salus_announce_within": [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64],
        "salus_attach": [ctypes.c_void_p, ctypes.POINTER(client)],
        "salus_begin_within": [client, ctypes.c_uint64, ctypes.c_uint64],
        "salus_forgo": [client],
        "salus_leave": [client, ctypes.c_uint64],
        "salus_leave_after": [client, ctypes.c_uint64, ctypes.c_int],
        "salus_count": [client, ctypes.c_uint64],
        "salus_interpose": [client, ctypes.c_char_p],
        "salus_set_threaded": [client, ctypes.c_int],
        "salus_join_within": [client, ctypes.c_uint64, ctypes.c_uint64],
        "salus_stop_sharing": [client],
        "salus_get_counters": [client, ctypes.POINTER(Counters)],
    }.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    library.salus_fetched.argtypes = [client]
    library.salus_fetched.restype = None
    library.salus_error_text.restype = ctypes.c_char_p
    return library


def tell_unshared(why):
    """Tells the service, for `salus ps`, why this process runs without sharing."""
    tell = _load().salus_tell_unshared
    tell.argtypes, tell.restype = [ctypes.c_char_p], None
    tell(why.encode())


def join(name, key):
    """Makes this process a job of its own, and waits until there is room for it. Returns why it cannot, or nothing."""
    library = _load()
    arguments = [text.encode() if text else None for text in (name, key)]
    status = WAITING
    while status == WAITING:  # between two calls the interpreter runs signal handlers, which may raise
        status = library.salus_announce_within(*arguments, _LOOK_AFTER_SIGNALS_NS)
    if status != OK:
        return library.salus_error_text().decode(errors="replace")
    library.salus_job_device.restype = ctypes.c_char_p
    # For the processes that it starts.
    os.environ["SALUS_JOB"] = str(library.salus_job())
    os.environ["SALUS_DEVICE"] = library.salus_job_device().decode()
    return None


def has_shim():
    """Whether the shim was preloaded: so the service shares a GPU."""
    return hasattr(ctypes.CDLL(None), "salus_shim_real")


class TooLarge(MemoryError):
    """The job could never fit on the device."""


class Attachment:
    """This process's attachment. Calls release the interpreter's lock, so other threads run while one waits."""

    def __init__(self):
        self._library = _load()
        self._client = ctypes.c_void_p()
        status = self._library.salus_attach(None, ctypes.byref(self._client))
        self.attached = status == OK
        self.why_not = "" if self.attached else self._error()
        # Every iteration calls these, so they involve as little Python as possible.
        # begin(kind) waits for this job's turn and enters an iteration. Iterations of one kind (a number) allocate alike.
        self.begin = self._entering(self._library.salus_begin_within)
        # join(kind) enters the iteration of a thread that waits for this one.
        self.join = self._entering(self._library.salus_join_within)
        leave_after = self._library.salus_leave_after
        self.end = functools.partial(leave_after, self._client, 1, _TRAINING)  # a boundary that ends an iteration
        self.answer = functools.partial(leave_after, self._client, 1, _ANSWER)  # ... which was a forward pass and no more
        self.doubt = functools.partial(leave_after, self._client, 0, _ANSWER)
        self.leave = functools.partial(self._library.salus_leave, self._client, 0)  # a boundary that does not end one
        self.fetched = functools.partial(self._library.salus_fetched, self._client)

    def _error(self):
        return self._library.salus_error_text().decode(errors="replace")

    def _entering(self, enter_within):
        client, forgo, error = self._client, self._library.salus_forgo, self._error

        def enter(kind):
            try:
                # Between two calls the interpreter runs signal handlers, which may raise.
                status = enter_within(client, _LOOK_AFTER_SIGNALS_NS, kind)
                while status == WAITING:
                    status = enter_within(client, _LOOK_AFTER_SIGNALS_NS, kind)
            except BaseException:
                forgo(client)
                raise
            if status == TOO_LARGE:
                raise TooLarge("salus: " + error())

        return enter

    def count(self, iterations):
        self._library.salus_count(self._client, iterations)

    def interpose(self, library):
        """Serves the large blocks of this shared library. Returns why that is impossible, or nothing."""
        status = self._library.salus_interpose(self._client, library.encode())
        return None if status == OK else self._error()

    @property
    def device(self):
        """"host" or "cuda": the device of the client's memory."""
        function = self._library.salus_device
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_char_p
        return function(self._client).decode()

    @property
    def device_ordinal(self):
        """The number of the GPU, as CUDA and torch count in this process."""
        return self._library.salus_device_ordinal(self._client)

    @property
    def address(self):
        """The salus_client*, for code that calls the library directly."""
        return self._client.value

    def function_address(self, name):
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value

    def set_threaded(self, threaded):
        """States whether threads that call no model use tensors, too. Call it before the first of them starts."""
        self._library.salus_set_threaded(self._client, threaded)

    def stop_sharing(self):
        self._library.salus_stop_sharing(self._client)

    def counters(self):
        counters = Counters(size=ctypes.sizeof(Counters))
        self._library.salus_get_counters(self._client, ctypes.byref(counters))
        return counters
