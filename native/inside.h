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
#ifndef HOLDFAST_INSIDE_H
#define HOLDFAST_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "frame.h"
#include "note.h"
#include "spec.h"

enum inside_state {
    INSIDE_NONE, /* the command runs here, in no container */
    INSIDE_ENTERING,
    INSIDE_MET,
    INSIDE_HELD,
    INSIDE_RUNNING,
    INSIDE_EXITED,
    INSIDE_GONE,
    INSIDE_REFUSED,
    INSIDE_LOST,
    INSIDE_STOPPED,
    INSIDE_UNREACHABLE,
};

enum { INSIDE_UNANSWERED_MAX = 64 }; /* more than that, nobody asks of an agent that does not answer */

struct inside {
    enum inside_state state;
    int link;         /* -1: closed */
    int said;         /* a file with what the runtime wrote to its stderr; -1 */
    int looked;       /* a file with the answer to our look; -1 */
    pid_t entering;   /* the child that holds the link; 0 when it has ended */
    pid_t looking;    /* the child that looks; 0 */
    int looks;        /* how often we have; every other time we sweep */
    int others;       /* processes that were left when the command exited */
    int survivors;    /* those that SIGKILL did not end so far */
    int unanswered;   /* what was asked of the agent, and not yet answered */
    bool client_left; /* the child that passes the output on has ended, and that was taken notice of */
    size_t unsent;    /* bytes of the agent's spec that are still to be sent */
    size_t filled;
    struct note note; /* the one that is being read */
};

void inside_none(struct inside *inside);
/* Starts the way in. False: errno says why. */
bool inside_open(struct inside *inside, const struct spec *spec);
/* Closes the link: for the agent that is the order to end everything. */
void inside_close(struct inside *inside);
/* Says something; nothing happens when the link is gone. */
void inside_say(struct inside *inside, enum note_word word, int signal, int rung);
/* Begins to send the spec, which may be larger than a socket takes at once; the rest goes whenever there is room. */
void inside_send_spec(struct inside *inside, const struct spec *spec);
void inside_send_rest(struct inside *inside, const struct spec *spec);
enum inside_news { INSIDE_NOTHING, INSIDE_NOTE, INSIDE_SILENCE };
enum inside_news inside_hear(struct inside *inside, struct note *note);
/*
 * Starts to look what became of the container, unless that is under way. When it says that it runs, the next look goes in
 * and ends what carries the run's token.
 */
void inside_look(struct inside *inside, const struct spec *spec);
/*
 * SIGKILL to the clients that hold the link and look. Not to what they left with us, as conmon: it belongs to the runtime,
 * whose records would be wrong without it, and it ends with what it watches.
 */
void inside_kill_clients(struct inside *inside);
/* One of our children has ended: was it the one that looks? Then the state says what it saw; LOST: to be asked again. */
void inside_reaped(struct inside *inside, pid_t pid, int wait_status);
/* Whether a signal would arrive. */
bool inside_is_reachable(const struct inside *inside);
enum tree_end inside_tree(const struct inside *inside);
/* The last of what the runtime had to say, for people. Returns its length. */
size_t inside_last_words(const struct inside *inside, char *text, size_t size);

#endif
