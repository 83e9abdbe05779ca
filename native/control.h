/*
 * Owners: the one that started the run, on a socket pair, and later ones that connect to the run directory's socket.
 * This file moves packets; what a request means is decided in requests.c.
 */
#ifndef HOLDFAST_CONTROL_H
#define HOLDFAST_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"

enum { OWNERS_MAX = 16, PACKET_MAX = 4096 };

struct owner {
    int fd; /* -1: free */
    pid_t pid;
    uid_t uid;
    bool wants_output; /* wake it at the next output */
};

struct request {
    struct frame frame;
    int owner;
    union {
        struct packet_stop stop;
        struct packet_signal signal;
        struct packet_extend extend;
        struct packet_read read;
        char bytes[PACKET_MAX];
    } body;
};

struct control {
    struct owner owners[OWNERS_MAX]; /* [0] is the owner that started the run */
    int listener;                    /* -1: none */
    bool accept_paused;                       /* accepting failed, for want of descriptors: not now */
};

void control_open(struct control *control, int first);
enum control_news { CONTROL_NOTHING, CONTROL_REQUEST, CONTROL_GONE };
/*
 * Takes the next run of a guard that has ended one, if it is there: its descriptors are put in place, its spec into `spec`,
 * which has room for NEXT_SPEC_MAX bytes. GONE: the owner, or what it sent was none.
 */
enum control_news control_next_run(struct control *control, char *spec, size_t *length);
/* Takes the next packet of one owner. */
enum control_news control_receive(struct control *control, int owner, struct request *request);
/* Lets a new owner in: same user or root only. Returns its index, or -1. */
int control_accept(struct control *control);
void control_answer(struct control *control, const struct request *request, int error, int descriptor);
void control_wake(struct control *control, uint64_t journal_length);
/* There is new output: wake those who asked for that, once. */
void control_wake_readers(struct control *control, uint64_t journal_length);
void control_drop(struct control *control, int owner);

#endif
