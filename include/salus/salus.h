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
 * The library never ends the process, throws nothing, and installs no signal handler. If the service goes away, the job
 * finishes the iteration that it has begun. The next begin waits SALUS_ORPHAN_WAIT seconds (60 by default) for the service
 * to come back; then the job continues without sharing. With SALUS_DISABLE=1 in the environment, the functions below only
 * allocate ordinary memory.
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
    SALUS_NO_SERVICE = 1, /* none runs, or it refused; see salus_error_text() */
    SALUS_MISUSE = 2,     /* an argument or the order of calls is wrong */
    SALUS_TOO_LARGE = 3,  /* the job could never fit on the device, even alone */
    SALUS_SYSTEM = 4,     /* the operating system refused something */
    SALUS_WAITING = 5     /* salus_begin_within: not yet */
} salus_status;

typedef enum salus_kind {
    SALUS_PERSISTENT = 0, /* lives across boundaries: private memory */
    SALUS_EPHEMERAL = 1,  /* is freed before the boundary: in the lane, if it is large enough */
    SALUS_AUTO = 2        /* learned from the same allocation in earlier iterations */
} salus_kind;

/* A field left at zero is taken from the environment that `salus run` sets; otherwise it is unknown. */
typedef struct salus_options {
    size_t size;              /* sizeof(salus_options), so that the struct can grow */
    const char* name;         /* shown by `salus ps`; by default the program's name */
    const char* socket;       /* by default SALUS_SOCKET, else the machine's, else the user's */
    int32_t priority;         /* higher is more urgent */
    double weight;            /* share under the fair policy; 0: 1 */
    double occupancy;         /* share of the device that the job can use alone; 0: 1 */
    uint64_t iterations;      /* number of iterations that it will run */
    uint64_t iteration_ns;    /* time of one iteration */
    uint64_t persistent_hint; /* P in bytes; together with ephemeral_hint (T) it saves the profiling turns */
    uint64_t ephemeral_hint;
    const char* client_class; /* "batch" or "interactive"; by default found by what the process does */
} salus_options;

typedef struct salus_counters {
    size_t size; /* sizeof(salus_counters), set by the caller */
    uint64_t iterations;
    uint64_t turns;         /* grants so far */
    uint64_t busy_ns;       /* inside iterations */
    uint64_t waited_ns;     /* in salus_begin */
    uint64_t lane_bytes;    /* total allocated in the lane */
    uint64_t missed_bytes;  /* allocated in private memory inside an iteration and freed before its end */
    uint64_t lane_peak;     /* most of the lane in use at once: T */
    uint64_t private_bytes; /* in use now */
    uint64_t evacuations;   /* blocks that were alive at a boundary, and moved out of the lane */
    uint64_t evacuated_bytes;
    uint64_t page_outs;
    uint64_t attachments; /* 1, and one more for each time the service came back */
    int32_t shared;       /* 1: attached to a service; 0: on its own */
} salus_counters;

/* Attaches this process to the service. `options` may be NULL. On failure *client is still valid: every call below works
 * on it, without sharing. A process has one client: a second attach is SALUS_MISUSE and sets *client to NULL. */
SALUS_API salus_status salus_attach(const salus_options* options, salus_client** client);

/* Makes this process a job of its own, as `salus run` makes one of a command, and waits until there is room for it. Call it
 * before the process uses a GPU, and salus_attach afterwards. It sets the environment that such a job has, SALUS_JOB among
 * it. `name` and `key` may be NULL: then SALUS_NAME and SALUS_KEY, or the command line, say what it is called and which
 * command's runs it continues. SALUS_WAITING when the time has passed or a signal has come: call it again, or go on without
 * waiting. SALUS_NO_SERVICE: see salus_error_text(). A process that belongs to a job already (SALUS_JOB) gets SALUS_OK at
 * once. The job ends with salus_detach, or with the process: only then its exit status is known. */
SALUS_API salus_status salus_announce_within(const char* name, const char* key, uint64_t nanoseconds);
/* The number of the job to which this process belongs; 0: to none. */
SALUS_API uint32_t salus_job(void);
/* "host" or "cuda": what the service shares to which that job was announced; empty: not known. */
SALUS_API const char* salus_job_device(void);

/* Waits until it is this job's turn, then enters an iteration. Several threads may call it: they then share one iteration,
 * whose boundary comes when the last of them has left. Calls nest within a thread.
 *
 * Threads: any thread may use a block, inside an iteration or not, if the process follows one of two rules.
 * - Only one thread works with the client's memory, together with threads that work for it while it waits for them.
 * - The client knows that there are other threads: a second thread has called salus_begin, or salus_set_threaded was called
 *   before another thread got its first block. Then all memory is private, and no block is ever moved. */
SALUS_API salus_status salus_begin(salus_client* client);
SALUS_API salus_status salus_end(salus_client* client);

/* As salus_begin, for programs that have something to do while they wait.
 * - `kind` is any number. Iterations of one kind allocate alike; training and evaluation, for example, are two kinds.
 * - Returns SALUS_WAITING when the time has passed or a signal has come. The request to run remains: call this again, or
 *   withdraw the request with salus_forgo (which leaves the iteration if the turn has come meanwhile).
 * - Does not nest: it does nothing for a thread that is already inside.
 * - Until this thread leaves, threads that work for it may allocate `on_behalf`, as after salus_delegate. */
SALUS_API salus_status salus_begin_within(salus_client* client, uint64_t nanoseconds, uint64_t kind);
/* As salus_begin_within, for a thread for which another thread inside an iteration waits: it enters that iteration at once,
 * if it has not ended. */
SALUS_API salus_status salus_join_within(salus_client* client, uint64_t nanoseconds, uint64_t kind);
SALUS_API salus_status salus_forgo(salus_client* client);

/* As salus_end, but states how many iterations this thread has completed: 0 if it was only part of one. salus_count adds
 * iterations later. */
SALUS_API salus_status salus_leave(salus_client* client, uint64_t iterations);
SALUS_API salus_status salus_count(salus_client* client, uint64_t iterations);

/* As salus_leave, and states what the thread has done. Forward passes alone, with pauses in which the process waits and
 * fetches nothing, make it interactive: somebody waits for its answers. salus_fetched: data for the next iterations was
 * fetched since the last one. */
typedef enum salus_work { SALUS_WORK_OTHER = 0, SALUS_WORK_TRAINING = 1, SALUS_WORK_ANSWER = 2 } salus_work;
SALUS_API salus_status salus_leave_after(salus_client* client, uint64_t iterations, salus_work work);
SALUS_API void salus_fetched(salus_client* client);

/* Memory aligned to at least 64 bytes, not cleared; NULL if there is none. Inside an iteration, a request beyond the job's
 * reservation may wait for the boundaries of others. */
SALUS_API void* salus_alloc(salus_client* client, size_t size, salus_kind kind);
/* Any thread may call this at any time. Does nothing for NULL, and in a child process for an inherited block. */
SALUS_API void salus_free(salus_client* client, void* block);
/* True if the block is in the lane now. */
SALUS_API int salus_in_lane(salus_client* client, const void* block);

/* ---- memory of a GPU, for allocators that know streams ------------------------------------------------------------------
 * "host" or "cuda". With "cuda" all memory of this client is on the GPU, and this process has, or gets, a context there. */
SALUS_API const char* salus_device(salus_client* client);
/* The number that the GPU has in this process. */
SALUS_API int salus_device_ordinal(salus_client* client);

/* A block for work on this stream (a CUstream). SALUS_OK with *block NULL: Salus does not serve such blocks (too small, or
 * not on the home stream), so the caller's own allocator should. SALUS_TOO_LARGE: there is not enough memory.
 * `on_behalf`: this thread has not called salus_begin, but works for other threads. If one of them has called
 * salus_delegate, the block is part of its iteration. */
SALUS_API salus_status salus_alloc_on(salus_client* client, size_t size, void* stream, int on_behalf, void** block);
/* Work on this stream uses the block, too: once freed, the block is reused only after that work has ended. */
SALUS_API void salus_used_on(salus_client* client, const void* block, void* stream);
/* Makes all later uses of blocks wait for the work given to this stream so far. Call it instead of salus_used_on if the
 * stream may be destroyed before the next boundary, and before freeing a block that work on the stream uses. */
SALUS_API void salus_wait_for_stream(salus_client* client, void* stream);
/* Whether the address lies in this client's memory. Cheap. */
SALUS_API int salus_owns(salus_client* client, const void* address);

/* Memory use of blocks of 1 MiB and more; peaks are since the last salus_reset_peaks. */
typedef struct salus_usage {
    size_t size;     /* sizeof(salus_usage), set by the caller */
    uint64_t in_use; /* bytes, in the lane or private */
    uint64_t in_use_peak;
    uint64_t reserved; /* private memory held, plus this job's use of the lane */
    uint64_t reserved_peak;
    uint64_t allocations; /* so far */
    uint64_t frees;
    uint64_t allocated; /* total bytes */
    uint64_t freed;
} salus_usage;
SALUS_API salus_status salus_get_usage(salus_client* client, salus_usage* usage);
SALUS_API void salus_reset_peaks(salus_client* client);
/* Returns freed memory that was kept for later use to the GPU. The result is its size in bytes. */
SALUS_API uint64_t salus_give_back(salus_client* client);

/* From now on, blocks of 1 MiB and more that a loaded library allocates with posix_memalign are allocated as SALUS_AUTO. The
 * library is matched by the start of its file name, such as "libc10.so". This cannot be undone: the client can no longer be
 * detached. SALUS_MISUSE if there is no such library, or it does not use posix_memalign and free. */
SALUS_API salus_status salus_interpose(salus_client* client, const char* library);

/* 1: threads that never call salus_begin are going to use the memory, too. From now on nothing is moved: blocks leave the
 * lane before this returns, new blocks are private, and the job is not paged out. 0: such threads no longer use it.
 * REQUIRES: none of them uses a block yet. */
SALUS_API salus_status salus_set_threaded(salus_client* client, int threaded);
/* 1: this thread is inside an iteration and from now on waits for threads that work for it (autograd's); what they allocate
 * `on_behalf` is part of its iteration. Ends with as many calls with 0, or with the iteration. */
SALUS_API salus_status salus_delegate(salus_client* client, int delegates);

SALUS_API salus_status salus_get_counters(salus_client* client, salus_counters* counters);

/* Leaves the service at the next boundary. The client and its memory remain, without sharing. */
SALUS_API salus_status salus_stop_sharing(salus_client* client);
/* Tells the service why this process of a job runs without sharing, in one line: `salus ps` shows it. Does nothing outside
 * of `salus run`. Needs no client. */
SALUS_API void salus_tell_unshared(const char* why);
/* Leaves the service and frees the client with all its blocks, or keeps them for good if another thread is inside a launch
 * that does not return within a second. REQUIRES: no thread is inside an iteration. */
SALUS_API salus_status salus_detach(salus_client* client);

/* Why the last call of this thread failed: one line, valid until its next call. */
SALUS_API const char* salus_error_text(void);

#ifdef __cplusplus
}
#endif

#endif
