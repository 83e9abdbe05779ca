/*
 * The guard's way into a container: a child of ours (`podman exec`, `docker exec`) whose stdin and stdout reach the agent.
 *
 *   ENTERING ──hello──▶ MET ──held──▶ HELD ──go──▶ RUNNING ──exited──▶ EXITED ──gone──▶ GONE
 *                                                     └──────gone (nobody is left)──────▶┘
 *   the link breaks: before the agent was met ──▶ REFUSED
 *                    later ──▶ LOST ──look──▶ STOPPED (the container, and so all of it) or UNREACHABLE
 *
 * The agent is a subreaper as the guard is, so inside, too, the tree is gone when waitpid says ECHILD, and only its word for
 * it (GONE), or the end of the whole container (STOPPED), counts as `gone`. Nothing here waits: a runtime takes its tenth of a
 * second, or for ever.
 */
#ifndef HOLDFAST_AGENT_LINK_H
#define HOLDFAST_AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "frame.h"
#include "agent_note.h"
#include "spec.h"

enum agent_link_state {
    AGENT_NONE, /* the command runs here, in no container */
    AGENT_ENTERING,
    AGENT_MET,
    AGENT_HELD,
    AGENT_RUNNING,
    AGENT_EXITED,
    AGENT_GONE,
    AGENT_REFUSED,
    AGENT_LOST,
    AGENT_STOPPED,
    AGENT_UNREACHABLE,
};

enum { AGENT_UNANSWERED_MAX = 64 }; /* more than that, nobody asks of an agent that does not answer */

struct agent_link {
    enum agent_link_state state;
    int fd;         /* -1: closed */
    int runtime_stderr;         /* a file with what the runtime wrote to its stderr; -1 */
    int look_answer;       /* a file with the answer to our look; -1 */
    pid_t enter_pid;   /* the child that holds the link; 0 when it has ended */
    pid_t look_pid;    /* the child that looks; 0 */
    int looks;        /* how often we have; every other time we sweep */
    int stragglers;       /* processes that were left when the command exited */
    int survivors;    /* those that SIGKILL did not end so far */
    int unanswered;   /* what was asked of the agent, and not yet answered */
    bool client_left; /* the child that passes the output on has ended, and that was taken notice of */
    size_t unsent;    /* bytes of the agent's spec that are still to be sent */
    size_t filled;
    struct note note; /* the one that is being read */
};

void agent_link_init(struct agent_link *link);
/* Starts the way in. False: errno says why. */
bool agent_link_open(struct agent_link *link, const struct spec *spec);
/* Closes the link: for the agent that is the order to end everything. */
void agent_link_close(struct agent_link *link);
/* Says something; nothing happens when the link is gone. */
void agent_link_send(struct agent_link *link, enum note_word word, int signal, int rung);
/* Begins to send the spec, which may be larger than a socket takes at once; the rest goes whenever there is room. */
void agent_link_send_spec(struct agent_link *link, const struct spec *spec);
void agent_link_send_rest(struct agent_link *link, const struct spec *spec);
enum agent_link_news { AGENT_NOTHING, AGENT_NOTE, AGENT_SILENCE };
enum agent_link_news agent_link_receive(struct agent_link *link, struct note *note);
/*
 * Starts to look what became of the container, unless that is under way. When it says that it runs, the next look goes in
 * and ends what carries the run's token.
 */
void agent_link_look(struct agent_link *link, const struct spec *spec);
/*
 * SIGKILL to the clients that hold the link and look. Not to what they left with us, as conmon: it belongs to the runtime,
 * whose records would be wrong without it, and it ends with what it watches.
 */
void agent_link_kill_clients(struct agent_link *link);
/* One of our children has ended: was it the one that looks? Then the state says what it saw; LOST: to be asked again. */
void agent_link_reaped(struct agent_link *link, pid_t pid, int wait_status);
/* Whether a signal would arrive. */
bool agent_link_is_reachable(const struct agent_link *link);
enum tree_end agent_link_tree(const struct agent_link *link);
/* The last of what the runtime had to say, for people. Returns its length. */
size_t agent_link_last_words(const struct agent_link *link, char *text, size_t size);

#endif
