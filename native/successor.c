/* successor: the run in which the stragglers of a finished command go on (stragglers policy `session`) */
#include "successor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "descriptors.h"
#include "expiry.h"
#include "host.h"
#include "phases.h"
#include "run.h"
#include "tree.h"
#include "writer.h"

#define OUTPUT_BYTES (1u << 30) /* KEPT_OUTPUT_BYTES of values/spec.py: nobody watches this output */
enum { LOOK_MS = 5, FIRST_LINE = 128 };

static const int places[KEEP_COUNT] = {GUARD_FD_JOURNAL, GUARD_FD_LISTEN, GUARD_FD_DIRECTORY};

void successor_none(struct successor *successor) {
    *successor = (struct successor){.files = {-1, -1, -1}, .streams = {-1, -1}};
}

/* ── the packet ───────────────────────────────────────────────────────────────────────────────────────────────── */

static void close_all(const struct request *request) {
    for (size_t i = 0; i < request->descriptors; i++)
        close(request->descriptor[i]);
}

static bool is_whole(const struct request *request) {
    return request->descriptors == KEEP_COUNT && request->frame.length > 0 && request->frame.length <= SUCCESSOR_ID_MAX;
}

int successor_take(struct run *run, const struct request *request) {
    struct successor *successor = &run->successor;
    run_reap(run); /* they may be gone by now */
    const bool wanted = run->phase == PHASE_LINGERING && run->spec.options.stragglers == STRAGGLERS_SESSION;
    if (!wanted || !is_whole(request)) {
        close_all(request);
        return wanted ? EINVAL : ESRCH;
    }
    int files[KEEP_COUNT];
    memcpy(files, request->descriptor, sizeof files);
    for (size_t i = 0; i < KEEP_COUNT; i++) {
        if (raise_descriptor(&files[i]))
            continue;
        for (size_t j = 0; j < KEEP_COUNT; j++)
            close(files[j]);
        return EMFILE;
    }
    memcpy(successor->files, files, sizeof files);
    memcpy(successor->run_id, request->body.bytes, request->frame.length);
    successor->run_id[request->frame.length] = '\0';
    journal_fact_text(&run->journal, FACT_KEPT_ON, "", 0, successor->run_id, request->frame.length);
    run_begin_drain(run, TREE_SURVIVORS);
    return 0;
}

/* ── the change from one run to the other ─────────────────────────────────────────────────────────────────────── */

static void reap_dead(void *context) { run_collect(context); }

void successor_end_tree(struct run *run) {
    const uint64_t until = clock_after(clock_now(), run->spec.options.kill_wait_ns);
    run_collect(run);
    while (!run->children_gone && clock_now() < until) {
        tree_kill(reap_dead, run);
        run_collect(run);
        if (!run->children_gone)
            poll(NULL, 0, LOOK_MS);
    }
}

/* The first run's writer has the same descriptors: their numbers are free when it has exited. */
static bool free_places(struct run *run) {
    struct writer *writer = run->journal.writer;
    if (writer != NULL && !writer_has_exited(writer))
        return false;
    if (writer != NULL) {
        close(writer->memory);
        close(writer->process);
    }
    control_close(&run->control);
    if (run->input >= 0)
        close(run->input);
    if (run->owner_process >= 0)
        close(run->owner_process);
    if (run->spec.options.flags & SPEC_IDLE_HEARTBEAT)
        close(GUARD_FD_HEARTBEAT);
    return true;
}

static bool put_in_place(const struct successor *successor) {
    bool done = true;
    for (size_t i = 0; i < KEEP_COUNT; i++) {
        done = dup3(successor->files[i], places[i], O_CLOEXEC) == places[i] && done;
        close(successor->files[i]);
    }
    return done;
}

/* What the first run was asked for, without what only its command or its owner needed. */
static struct spec spec_after(const struct spec *first) {
    struct spec spec = *first;
    struct spec_options *options = &spec.options;
    options->flags &= SPEC_NESTED | SPEC_CGROUP_CONTROLS | SPEC_GRACE_LADDER | SPEC_WITH_STARTER |
                      SPEC_SESSION_BUDGET;
    options->flags |= SPEC_LISTEN | SPEC_OUTPUT_ROLLS;
    options->stragglers = STRAGGLERS_KILL;
    options->deadline_ns = options->ceiling_ns = options->idle_ns = options->warn_before_ns = options->window_bytes = 0;
    options->output_bytes = OUTPUT_BYTES;
    return spec;
}

static bool open_journal_and_output(struct run *run, const struct successor *before) {
    journal_start_writer(&run->journal, GUARD_FD_JOURNAL, GUARD_FD_DIRECTORY);
    if (run->journal.writer != NULL)
        tree_spare(run->journal.writer->pid); /* our child, but no process of the run */
    const bool opened = journal_open(&run->journal, GUARD_FD_JOURNAL);
    output_prepare(&run->output, &run->journal, &run->spec.options);
    for (int i = 0; i < STREAM_COUNT; i++)
        run->output.streams[i].fd = before->streams[i];
    return opened;
}

/* The first process that is to be seen, in place of a leader: a line is "PID START_TICKS ...". */
static void record_started(struct run *run) {
    char line[FIRST_LINE] = "", *rest = line;
    size_t length = 0;
    tree_survivors(line, sizeof line - 1, &length);
    struct fact_started started = {
        .pid = (int32_t)strtol(line, &rest, 10),
        .guard_pid = getpid(),
        .containment = run->location->containment(run),
    };
    started.start_ticks = strtoull(rest, NULL, 10);
    run_record_started(run, &started);
}

bool successor_begin(struct run *run) {
    const struct successor before = run->successor;
    const struct cgroup cgroup = run->cgroup;
    const struct spec spec = spec_after(&run->spec);
    const struct session_budget session = run->session;
    const pid_t group = run->spawned.pid;
    const int starter = run->starter;
    /* A record that is not in its file yet: its storage hangs, and its writer needs the descriptors. */
    if (journal_committed(&run->journal) < run->journal.length || !free_places(run) || !put_in_place(&before)) {
        successor_end_tree(run);
        return false;
    }
    *run = (struct run){.spec = spec, .cgroup = cgroup, .session = session, .starter = starter};
    run->location = &host_location;
    run->phase = PHASE_LINGERING; /* a sentinel that takes over from here on ends the tree */
    run->succeeds = true;
    run->input = run->owner_process = run->foreign.process = -1;
    run->spawned = (struct spawned){.pid = group, .process = -1};
    successor_none(&run->successor);
    agent_link_init(&run->agent);
    control_open(&run->control, -1);
    run->control.listener = GUARD_FD_LISTEN;
    if (!open_journal_and_output(run, &before)) {
        successor_end_tree(run);
        return false;
    }
    record_started(run);
    run->start_recorded = true;
    run->phase = PHASE_RUNNING;
    run->started_ns = clock_now();
    run_arm_timers(run, run->started_ns);
    run_reap(run);
    return true;
}
