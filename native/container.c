/* container: a run whose command runs in a container, where the agent keeps it */
#include "container.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "expiry.h"
#include "ladder.h"
#include "phases.h"

#define NOTE_WAIT_NS 1000000000u /* how long the agent's note may take after the attaching client has ended */
#define LOOK_AGAIN_NS 150000000u
#define CLIENTS_PASS_NS 1000000000u /* how long the runtime's clients may take to end after the tree */

enum { NOTES_AT_ONCE = 64 };

static void record_container_lost(struct run *run, enum container_why why) {
    char words[1000];
    struct fact_container_lost lost = {.why = (int32_t)why};
    const size_t length = agent_link_last_words(&run->agent, words, sizeof words);
    journal_fact_text(&run->journal, FACT_CONTAINER_LOST, &lost, sizeof lost, words, length);
}

static void lose_container(struct run *run, enum container_why why) {
    record_container_lost(run, why);
    if (run->phase == PHASE_HELD)
        run_begin_quiet_end(run);
    else
        run_begin_stop(run);
}

/* Waits for the runtime's clients, when no process is left in the container: they still bring output. */
static void await_clients(struct run *run) {
    run->phase = PHASE_STOPPING;
    timers_clear(&run->timers);
    ladder_await_last(run);
}

/* Goes on after the command's exit, when its output has arrived or has had its time. As leader_left() on the host. */
static void output_passed(struct run *run) {
    timer_off(&run->timers, TIMER_AGENT);
    struct fact_stragglers stragglers = {.count = run->agent.stragglers, .policy = run->spec.options.stragglers};
    if (run->agent.state != AGENT_EXITED || stragglers.count == 0) {
        await_clients(run);
        return;
    }
    journal_fact(&run->journal, FACT_STRAGGLERS, &stragglers, sizeof stragglers);
    if (stragglers.policy == STRAGGLERS_WAIT && !run->exit_is_late) {
        if (run->deadline_ns > 0)
            timer_set(&run->timers, TIMER_DEADLINE, clock_after(run->started_ns, run->deadline_ns));
        return;
    }
    run->bound_ns = clock_after(clock_now(), run->spec.options.drain_ns);
    run_begin_stop(run);
}

static void command_exited(struct run *run, const struct note *note) {
    const struct fact_exited exited = {
        .wait_status = note->wait_status,
        .user_us = note->user_us,
        .system_us = note->system_us,
        .max_rss_kib = note->max_rss_kib,
    };
    run->agent.state = AGENT_EXITED;
    run->agent.stragglers = note->count;
    /* The agent saw the exit at `at_ns`, not before: only an exit that it saw in time is known to be in time. */
    const bool in_time = note->at_ns > 0 && note->at_ns < run->timers.due_ns[TIMER_DEADLINE];
    if (run->phase == PHASE_RUNNING && run_deadline_has_passed(run) && !in_time)
        run_count_exit_as_late(run);
    run_record_exited(run, &exited);
    run->wake_owners = true;
    if (run->phase != PHASE_RUNNING)
        return;
    run->phase = PHASE_LINGERING;
    timers_clear(&run->timers); /* output that is on its way was written before the exit */
    timer_set(&run->timers, TIMER_AGENT, clock_after(clock_now(), run->spec.options.drain_ns));
}

static void nobody_left_inside(struct run *run, const struct note *note) {
    run->agent.state = AGENT_GONE;
    run->usage = (struct fact_end){note->user_us, note->system_us, note->max_rss_kib};
    if (run->phase == PHASE_STOPPING || (run->phase == PHASE_LINGERING && run->agent.client_left))
        await_clients(run);
}

/* Acts on a broken link. Before the agent was met, it is a refusal. After the agent's last note, it is expected. */
static void agent_silent(struct run *run) {
    if (run->agent.state == AGENT_GONE)
        return;
    const bool was_met = run->agent.state != AGENT_ENTERING;
    run->agent.state = was_met ? AGENT_LOST : AGENT_REFUSED;
    timer_off(&run->timers, TIMER_AGENT);
    if (was_met)
        agent_link_look(&run->agent, &run->spec);
}

static void agent_met(struct run *run) {
    run->agent.state = AGENT_MET;
    if (run->phase != PHASE_HELD)
        return;
    agent_link_send_spec(&run->agent, &run->spec);
    if (run->agent.client_left)
        lose_container(run, CONTAINER_REFUSED);
    else
        spawn_release(); /* lets the attaching client go; the command itself waits for STARTED */
}

static void command_held(struct run *run, const struct note *note) {
    const struct fact_entered entered = {note->pid, note->agent_pid, note->start_ticks};
    const char *name = run->spec.container;
    run->agent.state = AGENT_HELD;
    if (run->phase != PHASE_HELD)
        return;
    journal_fact_text(&run->journal, FACT_ENTERED, &entered, sizeof entered, name, strlen(name));
    run_start(run);
}

/*
 * The guard does not trust what comes out of a container. It accepts each note only in the states in which it can be
 * true. A second HELLO means that a new agent has come, and nobody keeps what the first one kept.
 */
static bool is_expected(const struct agent_link *link, const struct note *note) {
    if (note->count < 0 || note->user_us < 0 || note->system_us < 0 || note->max_rss_kib < 0)
        return false;
    switch ((enum note_word)note->word) {
    case NOTE_HELLO:
        return link->state == AGENT_ENTERING;
    case NOTE_HELD:
        return link->state == AGENT_MET;
    case NOTE_FAILED:
        return link->state == AGENT_MET || link->state == AGENT_HELD || link->state == AGENT_RUNNING;
    case NOTE_EXITED:
        return link->state == AGENT_RUNNING;
    case NOTE_REACHED:
    case NOTE_WARNED:
        return link->unanswered > 0;
    case NOTE_SURVIVORS:
    case NOTE_GONE:
        return link->state != AGENT_ENTERING;
    default:
        return false; /* a note that only guards send, or none at all */
    }
}

static void take_note(struct run *run, const struct note *note) {
    const struct fact_signalled signalled = {note->signal, note->rung, note->reached, note->refused};
    const struct fact_warned warned = {note->signal, note->reached};
    if (!is_expected(&run->agent, note)) { /* not a note of our agent */
        agent_link_close(&run->agent);
        agent_silent(run);
        return;
    }
    switch ((enum note_word)note->word) {
    case NOTE_HELLO:
        agent_met(run);
        break;
    case NOTE_HELD:
        command_held(run, note);
        break;
    case NOTE_FAILED:
        run->agent.state = AGENT_GONE; /* the command never ran */
        if (run->phase == PHASE_RUNNING || run->phase == PHASE_HELD)
            run_spawn_failed(run, &(struct fact_spawn_failed){note->step, note->error});
        break;
    case NOTE_REACHED:
        run->agent.unanswered--;
        if (signalled.rung >= 0)
            journal_fact(&run->journal, FACT_SIGNALLED, &signalled, sizeof signalled);
        else
            repeats_fact(&run->repeats, &run->journal, REPEATED_SIGNALLED, &signalled, sizeof signalled);
        break;
    case NOTE_WARNED:
        run->agent.unanswered--;
        repeats_fact(&run->repeats, &run->journal, REPEATED_WARNED, &warned, sizeof warned);
        break;
    case NOTE_EXITED:
        command_exited(run, note);
        break;
    case NOTE_SURVIVORS:
        run->agent.survivors = note->count;
        break;
    case NOTE_GONE:
        nobody_left_inside(run, note);
        break;
    default:
        break;
    }
}

static void take_notes(struct run *run) {
    struct note note;
    agent_link_send_rest(&run->agent, &run->spec);
    for (int taken = 0; taken < NOTES_AT_ONCE; taken++) { /* clocks and owners must not wait for ever */
        switch (agent_link_receive(&run->agent, &note)) {
        case AGENT_NOTE:
            take_note(run, &note);
            break;
        case AGENT_SILENCE:
            agent_silent(run);
            return;
        case AGENT_NOTHING:
        default:
            return;
        }
    }
}

/* Acts on the end of the client that passes the output on. */
static void client_left(struct run *run) {
    run->agent.client_left = true;
    if (run->phase == PHASE_HELD && run->agent.state != AGENT_ENTERING)
        lose_container(run, CONTAINER_REFUSED);
    else if (run->phase == PHASE_RUNNING)
        timer_set(&run->timers, TIMER_AGENT, clock_now() + NOTE_WAIT_NS); /* the agent's note may still be on its way */
    else if (run->phase == PHASE_LINGERING)
        output_passed(run);
}

/* While the client lives, the last output may still be in the container. So the fence comes with the drain. */
static bool container_output_is_on_its_way(const struct run *run) {
    return run->phase == PHASE_LINGERING && !run->agent.client_left;
}

static enum containment container_containment(const struct run *run) {
    (void)run;
    return CONTAINMENT_CONTAINER;
}

static void container_release(struct run *run) {
    run->agent.state = AGENT_RUNNING;
    agent_link_send(&run->agent, NOTE_GO, 0, 0);
}

/* Does nothing: a client whose exec failed exits, and container_conclude() acts on that. */
static void container_check_exec(struct run *run) { (void)run; }

static void container_child_changed(struct run *run, pid_t pid, int wait_status, const struct rusage *usage) {
    (void)usage; /* of a client; the agent tells the usage of the command */
    if (!WIFEXITED(wait_status) && !WIFSIGNALED(wait_status))
        return;
    agent_link_reaped(&run->agent, pid, wait_status);
    if (pid == run->leader)
        run->leader = 0; /* the attaching client; the agent tells how the command ended */
}

static void container_conclude(struct run *run, bool leader_has_left) {
    (void)leader_has_left; /* not needed: below, run->leader == 0 says that the client has ended, in every phase */
    const bool undecided = run_may_begin_stop(run) || run->phase == PHASE_HELD;
    take_notes(run);
    if (run->agent.state == AGENT_LOST && run->agent.look_pid == 0 && !timer_is_set(&run->timers, TIMER_AGENT))
        timer_set(&run->timers, TIMER_AGENT, clock_now() + LOOK_AGAIN_NS);
    if (undecided && (run_may_begin_stop(run) || run->phase == PHASE_HELD)) {
        if (run->agent.state == AGENT_STOPPED)
            lose_container(run, CONTAINER_GONE);
        else if (run->agent.state == AGENT_REFUSED)
            lose_container(run, CONTAINER_REFUSED);
        else if (run->agent.state == AGENT_UNREACHABLE)
            lose_container(run, run->phase == PHASE_HELD ? CONTAINER_REFUSED : CONTAINER_UNREACHABLE);
    }
    if (run->leader == 0 && !run->agent.client_left)
        client_left(run);
    if (!run->children_gone || (run->phase != PHASE_STOPPING && run->phase != PHASE_LINGERING))
        return;
    if (run->agent.state == AGENT_LOST)
        agent_link_look(&run->agent, &run->spec); /* our own children are gone: is the tree in the container, too? */
    else
        run_begin_drain(run, agent_link_tree(&run->agent));
}

/* The agent, or the runtime, has not said what it should have said. */
static void container_overdue(struct run *run) {
    run_reap(run);
    if (run->agent.state == AGENT_LOST)
        agent_link_look(&run->agent, &run->spec);
    else if (run->phase == PHASE_HELD)
        lose_container(run, CONTAINER_REFUSED);
    else if (run->phase == PHASE_RUNNING && run->agent.client_left)
        lose_container(run, CONTAINER_UNREACHABLE); /* the ladder reaches the tree all the same */
    else if (run->phase == PHASE_LINGERING && run->agent.state == AGENT_EXITED && !run->agent.client_left)
        output_passed(run);
}

/* ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool container_is_reachable(const struct run *run) { return agent_link_is_reachable(&run->agent); }

/* The guard records a signal when the agent answers. */
static void container_ask(struct run *run, int signal, size_t rung) {
    agent_link_send(&run->agent, NOTE_ASK, signal, (int)rung);
}

static void container_kill(struct run *run) {
    agent_link_send(&run->agent, NOTE_KILL, SIGKILL, (int)run->spec.rungs - 1);
}

static void kill_clients(struct run *run) {
    agent_link_kill_clients(&run->agent);
    if (run->leader > 0)
        kill(run->leader, SIGKILL);
}

/* The agent repeats SIGKILL in the container. While it does, the clients must live to bring us the end. */
static uint64_t container_kill_again(struct run *run) {
    if (!agent_link_is_reachable(&run->agent))
        kill_clients(run);
    return CLIENTS_PASS_NS;
}

static void container_give_up(struct run *run) {
    kill_clients(run);
    agent_link_close(&run->agent); /* orders the agent, should it wake up, to end everything */
    run_begin_drain(run, agent_link_tree(&run->agent));
}

static int container_survivors(const struct run *run, char *text, size_t size, size_t *length) {
    (void)text; /* their PIDs mean nothing on the host */
    (void)size;
    *length = 0;
    return run->agent.survivors;
}

static int container_signal(struct run *run, int signal, enum signal_scope scope) {
    if (run->agent.unanswered >= AGENT_UNANSWERED_MAX)
        return EAGAIN;
    agent_link_send(&run->agent, scope == SCOPE_TREE ? NOTE_SIGNAL : NOTE_SIGNAL_ONE, signal, -1);
    return agent_link_is_reachable(&run->agent) ? 0 : ESRCH;
}

static void container_warn(struct run *run, int signal) { agent_link_send(&run->agent, NOTE_WARN, signal, 0); }

const struct location container_location = {
    .containment = container_containment,
    .release = container_release,
    .check_exec = container_check_exec,
    .child_changed = container_child_changed,
    .conclude = container_conclude,
    .overdue = container_overdue,
    .output_is_on_its_way = container_output_is_on_its_way,
    .is_reachable = container_is_reachable,
    .ask = container_ask,
    .kill = container_kill,
    .first_pass_ns = CLIENTS_PASS_NS,
    .kill_again = container_kill_again,
    .give_up = container_give_up,
    .survivors = container_survivors,
    .signal = container_signal,
    .warn = container_warn,
};
