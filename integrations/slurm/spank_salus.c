/* Slurm's tasks share the GPU under Salus: sets the variables that `salus env` prints, in which any process of the task joins
 * the node's service by itself. Nothing stands between Slurm and the task, so signals, TaskProlog and TMPDIR are Slurm's own.
 *
 * A line of plugstack.conf:
 *
 *   optional /usr/lib/salus/spank_salus.so [share=shard|all|asked] [partitions=NAME,...] [salus=/usr/bin/salus]
 *                                          [socket=/run/salus/socket]
 *
 *   share        shard: jobs that were given shards of a GPU; all: every job; asked: only those with --salus
 *   partitions   share= holds for jobs of these partitions only; without it, for all
 *   salus        the program, by default /usr/bin/salus
 *   socket       where the node's service listens, by default the machine's; %n stands for the node's name
 *
 * Options of srun, sbatch and salloc: --salus[=priority=N,weight=X,class=batch|interactive,iterations=N,key=TEXT], --no-salus.
 * A task that cannot share runs as without Salus, and one line on its standard error says why. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(salus, 1)

enum share { SHARE_SHARD, SHARE_ALL, SHARE_ASKED };
static enum share share = SHARE_SHARD;
static const char *partitions = "";
static const char *program = "/usr/bin/salus";
static const char *socket_pattern = "";
static int asked, declined;
static char wishes[512];

/* Each is an option of --salus=, and the variable by which a job states it. */
static const char *const kWishes[][2] = {{"priority", "SALUS_PRIORITY"},
                                         {"weight", "SALUS_WEIGHT"},
                                         {"class", "SALUS_CLASS"},
                                         {"iterations", "SALUS_ITERATIONS"},
                                         {"key", "SALUS_KEY"}};
enum { kWishesCount = sizeof kWishes / sizeof *kWishes };

static const char *variable_of(const char *wish, size_t length) {
    for (int i = 0; i < kWishesCount; ++i) {
        if (strlen(kWishes[i][0]) == length && !strncmp(kWishes[i][0], wish, length)) return kWishes[i][1];
    }
    return NULL;
}

static int hear_salus(int value, const char *argument, int remote) {
    (void)value;
    (void)remote;
    if (argument && strlen(argument) >= sizeof wishes) {
        slurm_error("--salus= is too long");
        return -1;
    }
    for (const char *wish = argument; wish && *wish;) {
        const size_t length = strcspn(wish, ","), name = strcspn(wish, "=,");
        if (name == length || !variable_of(wish, name)) {
            slurm_error("--salus=%s: '%.*s' must be priority=, weight=, class=, iterations= or key=", argument, (int)length, wish);
            return -1;
        }
        wish += length + (wish[length] == ',');
    }
    asked = 1;
    declined = 0;
    snprintf(wishes, sizeof wishes, "%s", argument ? argument : "");
    return 0;
}

static int hear_no_salus(int value, const char *argument, int remote) {
    (void)value;
    (void)argument;
    (void)remote;
    declined = 1;
    asked = 0;
    return 0;
}

static struct spank_option kOptions[] = {
    {"salus", "options", "share the GPU under Salus: priority=N,weight=X,class=NAME,iterations=N,key=TEXT", 2, 1, hear_salus},
    {"no-salus", NULL, "do not share the GPU under Salus", 0, 2, hear_no_salus},
    SPANK_OPTIONS_TABLE_END,
};

int slurm_spank_init(spank_t spank, int count, char **words) {
    for (int i = 0; i < count; ++i) {
        if (!strncmp(words[i], "salus=", 6)) program = words[i] + 6;
        else if (!strncmp(words[i], "socket=", 7)) socket_pattern = words[i] + 7;
        else if (!strncmp(words[i], "partitions=", 11)) partitions = words[i] + 11;
        else if (!strcmp(words[i], "share=shard")) share = SHARE_SHARD;
        else if (!strcmp(words[i], "share=all")) share = SHARE_ALL;
        else if (!strcmp(words[i], "share=asked")) share = SHARE_ASKED;
        else slurm_error("spank_salus: '%s' in plugstack.conf must be share=shard|all|asked, partitions=, salus= or socket=", words[i]);
    }
    for (struct spank_option *option = kOptions; option->name; ++option) {
        const spank_err_t failure = spank_option_register(spank, option);
        if (failure != ESPANK_SUCCESS) return -1;
    }
    return 0;
}

static int is_one_of(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (; *names; names += strcspn(names, ","), names += *names == ',') {
        if (strcspn(names, ",") == length && !strncmp(names, name, length)) return 1;
    }
    return 0;
}

static int is_wanted(spank_t spank) {
    char shards[64], partition[256];
    if (declined) return 0;
    if (asked) return 1;
    if (*partitions && (spank_getenv(spank, "SLURM_JOB_PARTITION", partition, sizeof partition) != ESPANK_SUCCESS ||
                        !is_one_of(partitions, partition)))
        return 0;
    if (share == SHARE_ALL) return 1;
    return share == SHARE_SHARD &&
           spank_getenv(spank, "SLURM_SHARDS_ON_NODE", shards, sizeof shards) == ESPANK_SUCCESS && *shards;
}

/* What a step inherits from whoever submitted it, perhaps on another node. */
static void forget_submitter(spank_t spank) {
    static const char *const kStale[] = {"SALUS_JOB", "SALUS_SOCKET", "SALUS_DEVICE", "SALUS_LIBRARY", "SALUS_NAME"};
    for (size_t i = 0; i < sizeof kStale / sizeof *kStale; ++i) spank_unsetenv(spank, kStale[i]);
}

/* Writes the variable as the task has it into our own environment, which `salus env` inherits. */
static void lend(spank_t spank, const char *name) {
    char value[32768];
    if (spank_getenv(spank, name, value, sizeof value) == ESPANK_SUCCESS) setenv(name, value, 1);
    else unsetenv(name);
}

static void set_socket(spank_t spank) {
    char node[256] = "", path[PATH_MAX] = "";
    size_t at = 0;
    spank_getenv(spank, "SLURMD_NODENAME", node, sizeof node);
    for (const char *c = socket_pattern; *c && at + 1 < sizeof path; ++c) {
        if (c[0] == '%' && c[1] == 'n') {
            const int length = snprintf(path + at, sizeof path - at, "%s", node);
            at += length > 0 && at + (size_t)length < sizeof path ? (size_t)length : 0;
            ++c;
        } else {
            path[at++] = *c;
            path[at] = 0;
        }
    }
    if (*path) setenv("SALUS_SOCKET", path, 1);
    else unsetenv("SALUS_SOCKET");
}

/* Runs `salus env` with this process's environment; the end of a pipe with what it prints. Its errors go to the task's. */
static FILE *open_salus_env(pid_t *child) {
    int ends[2];
    if (pipe(ends) != 0) return NULL;
    *child = fork();
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "env", (char *)NULL);
        fprintf(stderr, "salus: %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    FILE *const lines = *child > 0 ? fdopen(ends[0], "r") : NULL;
    if (!lines) close(ends[0]);
    return lines;
}

static void set_wishes(spank_t spank) {
    char all[sizeof wishes];
    snprintf(all, sizeof all, "%s", wishes);
    char *rest = NULL;
    for (char *wish = strtok_r(all, ",", &rest); wish; wish = strtok_r(NULL, ",", &rest)) {
        const size_t name = strcspn(wish, "=");
        const char *const variable = variable_of(wish, name);
        if (variable) spank_setenv(spank, variable, wish + name + 1, 1);
    }
}

static void set_name(spank_t spank) {
    uint32_t job = 0, step = 0;
    char name[64];
    spank_get_item(spank, S_JOB_ID, &job);
    spank_get_item(spank, S_JOB_STEPID, &step);
    if (step == SLURM_BATCH_SCRIPT) snprintf(name, sizeof name, "slurm-%u.batch", job);
    else snprintf(name, sizeof name, "slurm-%u.%u", job, step);
    spank_setenv(spank, "SALUS_NAME", name, 1);
}

/* In the task's process, as its user, before TaskProlog. Never fails: a job need not share. */
int slurm_spank_task_init(spank_t spank, int count, char **words) {
    (void)count;
    (void)words;
    if (!spank_remote(spank)) return 0;
    forget_submitter(spank);
    if (!is_wanted(spank)) return 0;
    lend(spank, "PYTHONPATH");
    lend(spank, "LD_PRELOAD");
    set_socket(spank);
    pid_t child = 0;
    FILE *const lines = open_salus_env(&child);
    char *line = NULL;
    size_t size = 0;
    int set = 0, status = 0;
    while (lines && getline(&line, &size, lines) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *const value = strchr(line, '=');
        if (!value) continue;
        *value = 0;
        set += spank_setenv(spank, line, value + 1, 1) == ESPANK_SUCCESS;
    }
    free(line);
    if (lines) fclose(lines);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (set == 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "salus: the task runs without sharing\n");
        return 0;
    }
    set_wishes(spank);
    set_name(spank);
    return 0;
}
