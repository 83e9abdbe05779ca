/* control: the sockets of a run's owners, and the packets on them */
#ifndef HOLDFAST_CONTROL_H
#define HOLDFAST_CONTROL_H

/*
 * The first owner started the run and has the other end of a socket pair. Later owners connect to the socket in the
 * run's directory. This file moves packets; requests.c decides what a request means.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"

/*
 * The last place is for the newest owner, when all others are taken: the next one that comes replaces it. So idle
 * connections, however many, keep no owner from asking. A replaced owner sees end of file, and connects again.
 */
enum { OWNERS_MAX = 16, OWNER_NEWEST = OWNERS_MAX - 1, PACKET_MAX = 4096 };

struct owner {
    int fd; /* -1: free */
    pid_t pid;
    uid_t uid;
    bool wants_output; /* wake this owner at the next output */
    uint64_t holds_from; /* it reads the output, and still needs the journal from here on; 0: it does not read */
};

struct request {
    struct frame frame;
    int owner;
    int descriptor[KEEP_COUNT]; /* that came with it: whoever handles the request has to close them */
    size_t descriptors;
    union {
        struct packet_stop stop;
        struct packet_stop_within stop_within;
        struct packet_signal signal;
        struct packet_extend extend;
        struct packet_read read;
        char bytes[PACKET_MAX];
    } body;
};

struct control {
    struct owner owners[OWNERS_MAX]; /* [0] is the owner that started the run */
    int listener;                    /* -1: none */
    int directory;                   /* the owner's working directory, which came with the next run; -1: none */
    bool takes_no_more;              /* no run comes after this one, and the owner is refused another */
    bool accept_paused;              /* no descriptor was free to accept an owner: try again later */
};

void control_open(struct control *control, int first);
/* A pidfd of the process that made the first owner's socket, wherever its PID namespace is; -1: an older kernel. */
int control_owner_process(const struct control *control);
enum control_news { CONTROL_NOTHING, CONTROL_REQUEST, CONTROL_GONE };
/*
 * Takes the next run for a guard that has ended one, if it has arrived. Puts the descriptors into their places and the
 * spec into `spec`, which has room for NEXT_SPEC_MAX bytes. GONE: the owner closed the socket, or sent a malformed
 * packet.
 */
enum control_news control_next_run(struct control *control, char *spec, size_t *length);
/* Takes the next packet of one owner. */
enum control_news control_receive(struct control *control, int owner, struct request *request);
/* Lets a new owner in, if it is the same user or root; it may replace the newest. Returns its index, or -1. */
int control_accept(struct control *control);
void control_answer(struct control *control, const struct request *request, int error, int descriptor);
void control_wake(struct control *control, uint64_t journal_length);
/* The run has ended, but its record is not in the file: sends the rest to every owner, as a descriptor. */
void control_tell_unrecorded(struct control *control, const struct packet_unrecorded *rest, int memory);
/* The first journal offset that an owner still needs; UINT64_MAX: nobody reads. */
uint64_t control_held_from(const struct control *control);
/* Whether an owner has asked to be woken at the next output. */
bool control_has_readers(const struct control *control);
/* Wakes the owners that asked to be woken at the next output, once. */
void control_wake_readers(struct control *control, uint64_t journal_length);
/* Closes all sockets: a writer that waits for storage has the same descriptors, and would keep them open. */
void control_close(struct control *control);
void control_drop(struct control *control, int owner);
/* Takes no more runs. The owner learns that at once: it cannot send us another. */
void control_take_no_more(struct control *control);

#endif
