/* agent_link: the guard's link to its agent in a container, and the runtime's clients that hold it */
#ifndef HOLDFAST_AGENT_LINK_H
#define HOLDFAST_AGENT_LINK_H

/*
 * The link leads through a child of the guard (`podman exec`, `docker exec`), whose stdin and stdout reach the agent.
 *
 *   ENTERING ──hello──▶ MET ──held──▶ HELD ──go──▶ RUNNING ──exited──▶ EXITED ──gone──▶ GONE
 *                                                     └──────gone (nobody is left)──────▶┘
 *   the link breaks: before the agent was met ──▶ REFUSED
 *                    later ──▶ LOST ──look──▶ STOPPED (the whole container has stopped) or UNREACHABLE
 *
 * The agent is a subreaper, as the guard is. So in the container, too, the tree is gone when waitpid says ECHILD. Only
 * the agent's word for it (GONE), or the end of the whole container (STOPPED), counts as `gone`. Nothing here waits: a
 * runtime may take a tenth of a second, or for ever.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent_note.h"
#include "frame.h"
#include "spec.h"

enum agent_link_state {
    AGENT_NONE, /* the command runs on this host */
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

enum { AGENT_UNANSWERED_MAX = 64 }; /* the guard asks no more of an agent that owes so many answers */

struct agent_link {
    enum agent_link_state state;
    int fd;             /* -1: closed */
    int runtime_stderr; /* a file with what the runtime wrote to stderr; -1: none */
    int look_answer;    /* a file with what the runtime answered to our look; -1: none */
    pid_t enter_pid;    /* the client that holds the link; 0 when it has ended */
    pid_t look_pid;     /* the client that looks; 0: none */
    int looks;          /* how many looks were started; every second one is a sweep */
    int stragglers;     /* processes that were left when the command exited */
    int survivors;      /* processes that SIGKILL has not ended so far */
    int unanswered;     /* requests that the agent has not answered yet */
    bool client_left;   /* the client that passes the output on has ended, and the run has taken note of that */
    size_t unsent;      /* bytes of the agent's spec that are still to be sent */
    size_t filled;      /* bytes of `note` that have arrived */
    struct note note;   /* the note that is being read */
};

void agent_link_init(struct agent_link *link);
/* Starts the client that holds the link. False: errno says why. */
bool agent_link_open(struct agent_link *link, const struct spec *spec);
/* Closes the link. For the agent that is the order to end everything. */
void agent_link_close(struct agent_link *link);
/* Sends a note. Does nothing when the link is closed. */
void agent_link_send(struct agent_link *link, enum note_word word, int signal, int rung);
/* Begins to send the spec, which may be larger than a socket takes at once. The rest goes whenever there is room. */
void agent_link_send_spec(struct agent_link *link, const struct spec *spec);
void agent_link_send_rest(struct agent_link *link, const struct spec *spec);
enum agent_link_news { AGENT_NOTHING, AGENT_NOTE, AGENT_SILENCE };
enum agent_link_news agent_link_receive(struct agent_link *link, struct note *note);
/*
 * Starts a look at what became of the container, unless one is under way. If the container runs, the next look goes in
 * and ends the processes that carry the run's token.
 */
void agent_link_look(struct agent_link *link, const struct spec *spec);
/*
 * Sends SIGKILL to the clients that hold the link and look. It spares the helpers that they left to us, such as
 * conmon: a helper belongs to the runtime, whose records would be wrong without it, and it ends with what it watches.
 */
void agent_link_kill_clients(struct agent_link *link);
/* Takes note of a child that has ended. After a look, the state says what was seen; if it is still LOST, look again. */
void agent_link_reaped(struct agent_link *link, pid_t pid, int wait_status);
/* Whether a signal would reach the agent. */
bool agent_link_is_reachable(const struct agent_link *link);
/* What is known of the tree in the container. */
enum tree_end agent_link_tree(const struct agent_link *link);
/* Copies what the runtime wrote to stderr at its last attempt, for people. Returns its length. */
size_t agent_link_last_words(const struct agent_link *link, char *text, size_t size);

#endif
