/*
 * Salus: several jobs share one device, iteration by iteration. The C interface of libsalus.so.
 *
 *     salus_client* client;
 *     if (salus_attach(NULL, &client) != SALUS_OK) fprintf(stderr, "%s\n", salus_error_text());
 *     float* weights = salus_alloc(client, weights_size, SALUS_PERSISTENT);
 *     for (...) {
 *         salus_begin(client);                                         // waits for this job's turn
 *         float* scratch = salus_alloc(client, scratch_size, SALUS_AUTO);
 *         ... one iteration ...
 *         salus_free(client, scratch);
 *         salus_end(client);                                           // a boundary: another job may run now
 *     }
 *     salus_detach(client);
 *
 * The library never ends the process, throws nothing, and installs no signal handler. If the service goes away, an iteration
 * that has begun is finished, the next begin waits for the service to come back and, if it does not (SALUS_ORPHAN_WAIT
 * seconds, 60 by default), the job runs on by itself. With SALUS_DISABLE=1 in the environment everything here does nothing
 * but allocate ordinary memory.
 */
#ifndef SALUS_SALUS_H
#define SALUS_SALUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SALUS_API __attribute__((visibility("default")))

typedef struct salus_client salus_client;

typedef enum salus_status {
    SALUS_OK = 0,
    SALUS_NO_SERVICE = 1, /* none runs, or it does not want us; see salus_error_text() */
    SALUS_MISUSE = 2,     /* an argument or the order of calls is wrong */
    SALUS_TOO_LARGE = 3,  /* the job could never fit on the device, even alone */
    SALUS_SYSTEM = 4,     /* the operating system refused something */
    SALUS_WAITING = 5     /* salus_begin_within: not yet */
} salus_status;

typedef enum salus_kind {
    SALUS_PERSISTENT = 0, /* lives across boundaries: private memory */
    SALUS_EPHEMERAL = 1,  /* is freed before the boundary: in the lane, if it is large enough */
    SALUS_AUTO = 2        /* learned from what became of the same allocation in earlier iterations */
} salus_kind;

/* What is left at zero is taken from the environment that `salus run` sets, or is not known. */
typedef struct salus_options {
    size_t size;              /* sizeof(salus_options), so that the struct can grow */
    const char* name;         /* shown by `salus ps`; by default the program's name */
    const char* socket;       /* by default SALUS_SOCKET, else the user's, else the system's */
    int32_t priority;         /* larger is more urgent */
    double weight;            /* share under the fair policy; 0: 1 */
    double occupancy;         /* share of the device that the job can use alone; 0: 1 */
    uint64_t iterations;      /* how many it will run */
    uint64_t iteration_ns;    /* how long one takes */
    uint64_t persistent_hint; /* bytes; with ephemeral_hint: what it will need, which saves the profiling turns */
    uint64_t ephemeral_hint;
} salus_options;

typedef struct salus_counters {
    size_t size; /* sizeof(salus_counters), set by the caller */
    uint64_t iterations;
    uint64_t turns;         /* grants so far */
    uint64_t busy_ns;       /* inside iterations */
    uint64_t waited_ns;     /* in salus_begin */
    uint64_t lane_bytes;    /* allocated in the lane, in all */
    uint64_t missed_bytes;  /* allocated in private memory inside an iteration and freed before its end */
    uint64_t lane_peak;     /* most of the lane in use at once: T */
    uint64_t private_bytes; /* in use now */
    uint64_t evacuations;   /* blocks that were alive at a boundary, and moved out of the lane */
    uint64_t evacuated_bytes;
    uint64_t page_outs;
    uint64_t attachments; /* 1, and one more for each time the service came back */
    int32_t shared;       /* 1: attached to a service; 0: on its own */
} salus_counters;

/* Attaches this process to the service. `options` may be NULL. On any failure *client is still a client, on its own: every
 * call below works on it, without sharing. One client a process: a second attach is SALUS_MISUSE and sets *client to NULL.
 */
SALUS_API salus_status salus_attach(const salus_options* options, salus_client** client);

/* Enters an iteration; waits until it is this job's turn. May be called by several threads: the iteration is then theirs in
 * common, and its boundary is when the last of them is out. Calls nest within a thread.
 *
 * Threads: a block may be used by any thread, inside an iteration or not, if the process keeps one of two rules. Either one
 * thread alone works with the client's memory (and threads that work for it while it waits for them), or it is known that
 * there are others: since a second thread has called salus_begin, or because salus_set_threaded was called before the first
 * of the others was given a block. In the second case all memory is private, and no block is ever moved. */
SALUS_API salus_status salus_begin(salus_client* client);
SALUS_API salus_status salus_end(salus_client* client);

/* As salus_begin, for programs that know more, and have something to look after while they wait. Iterations of one `kind`,
 * any number, allocate alike: training and evaluation do not. It comes back with SALUS_WAITING when that much time has
 * passed or a signal has come. The wish to run stands: call it again, or say by salus_forgo that nobody waits any more (it
 * leaves the iteration if the turn has come meanwhile). It does not nest: for a thread that is inside it does nothing. Until
 * it leaves, threads that work for it may allocate `on_behalf`, as after salus_delegate. */
SALUS_API salus_status salus_begin_within(salus_client* client, uint64_t nanoseconds, uint64_t kind);
/* ... for a thread that another one, which is inside, waits for: it enters that iteration, if it still goes on, at once. */
SALUS_API salus_status salus_join_within(salus_client* client, uint64_t nanoseconds, uint64_t kind);
SALUS_API salus_status salus_forgo(salus_client* client);

/* As salus_end, but says how many iterations of this thread's own that makes: none, if it was only part of one. salus_count
 * adds iterations later. */
SALUS_API salus_status salus_leave(salus_client* client, uint64_t iterations);
SALUS_API salus_status salus_count(salus_client* client, uint64_t iterations);

/* Memory aligned to 64 bytes at least, not cleared; NULL if it cannot be had. Inside an iteration a request that outgrows
 * what the job was given may wait for others' boundaries. */
SALUS_API void* salus_alloc(salus_client* client, size_t size, salus_kind kind);
/* Any thread, any time. Of a block that a child process inherited: does nothing. NULL is fine. */
SALUS_API void salus_free(salus_client* client, void* block);
/* True if the block is in the lane now. */
SALUS_API int salus_in_lane(salus_client* client, const void* block);

/* ---- memory of a GPU, for allocators that know streams ------------------------------------------------------------------
 * "host", or "cuda": then all memory of this client is the GPU's, and this process has, or gets, a context on it. */
SALUS_API const char* salus_device(salus_client* client);
/* The number that the GPU has in this process. */
SALUS_API int salus_device_ordinal(salus_client* client);

/* A block for work on this stream (a CUstream). SALUS_OK with *block NULL: it is not for Salus to serve (too small, or on
 * another stream than the rest), and the caller's own allocator should. SALUS_TOO_LARGE: it cannot be had.
 * `on_behalf`: this thread has not called salus_begin, but works for others; inside an iteration, if one of them has called
 * salus_delegate. */
SALUS_API salus_status salus_alloc_on(salus_client* client, size_t size, void* stream, int on_behalf, void** block);
/* Work on this stream uses the block, too: once freed, it is not used again before that work has ended. */
SALUS_API void salus_used_on(salus_client* client, const void* block, void* stream);
/* What blocks are used for from now on comes after what this stream was given so far. To be called before a block is freed
 * that work on the stream uses, instead of salus_used_on, where the stream may be destroyed before the next boundary. */
SALUS_API void salus_wait_for_stream(salus_client* client, void* stream);
/* Whether the address is in memory of this client. Cheap. */
SALUS_API int salus_owns(salus_client* client, const void* address);

/* What blocks of 1 MiB and more use; peaks since the last salus_reset_peaks. */
typedef struct salus_usage {
    size_t size;     /* sizeof(salus_usage), set by the caller */
    uint64_t in_use; /* bytes, in the lane or private */
    uint64_t in_use_peak;
    uint64_t reserved; /* private memory held, and what this job uses of the lane */
    uint64_t reserved_peak;
    uint64_t allocations; /* so far */
    uint64_t frees;
    uint64_t allocated; /* bytes, in all */
    uint64_t freed;
} salus_usage;
SALUS_API salus_status salus_get_usage(salus_client* client, salus_usage* usage);
SALUS_API void salus_reset_peaks(salus_client* client);
/* Memory that was freed and is kept for later goes back to the GPU. Returns how much that was, in bytes. */
SALUS_API uint64_t salus_give_back(salus_client* client);

/* From now on what a loaded library (matched by the start of its file name, such as "libc10.so") allocates by
 * posix_memalign, in blocks of 1 MiB and more, is allocated as SALUS_AUTO. There is no way back: the client cannot be
 * detached any more. SALUS_MISUSE if there is no such library, or it does not use posix_memalign and free. */
SALUS_API salus_status salus_interpose(salus_client* client, const char* library);

/* 1: threads that never call salus_begin are going to use the memory, too. From now on nothing is moved: what is in the lane
 * leaves it before this returns, new blocks are private, and the job is not paged out. 0: they no longer do. REQUIRES: none
 * of them uses a block yet. */
SALUS_API salus_status salus_set_threaded(salus_client* client, int threaded);
/* 1: this thread, inside an iteration, from now on waits for threads that work for it (autograd's): what they allocate
 * `on_behalf` is part of its iteration. 0, as often, or the end of the iteration: no longer. */
SALUS_API salus_status salus_delegate(salus_client* client, int delegates);

SALUS_API salus_status salus_get_counters(salus_client* client, salus_counters* counters);

/* Leaves the service at the next boundary; the client, and all memory, stay, without sharing. */
SALUS_API salus_status salus_stop_sharing(salus_client* client);
/* Leaves the service and frees the client and every block of it. REQUIRES: no thread is inside an iteration. */
SALUS_API salus_status salus_detach(salus_client* client);

/* Why the last call of this thread failed: one line, valid until its next call. */
SALUS_API const char* salus_error_text(void);

#ifdef __cplusplus
}
#endif

#endif
