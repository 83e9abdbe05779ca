/* stand_in: the process that takes the place of a sentinel that has died */
#ifndef HOLDFAST_STAND_IN_H
#define HOLDFAST_STAND_IN_H

/*
 * A guard whose sentinel has died starts a stand-in, with the same descriptors and the same `struct run`. No process can
 * be put above the guard any more. So the stand-in is made a sibling of the guard (CLONE_PARENT): it is no process of
 * the run, and ECHILD still means what it means.
 *
 * The stand-in continues the guard twice a second, without looking, kills a guard that is late, and ends the run when
 * the guard is dead. The processes of the run do not fall to it, so it cannot prove by ECHILD that they are gone. It
 * kills the members of the leaf, and every process that carries the run's token, and says `unknown`. It says `gone` only
 * of a command that never ran.
 *
 * A stand-in that dies is replaced: the guard watches its pidfd.
 */

struct run;

/* Notes the signalfd that sentinel and guard read. */
void stand_in_prepare(int signals);
/* Starts a stand-in. It is called again when the stand-in has died. Without a process to spare there is none. */
void stand_in_start(struct run *run);
/* A pidfd, readable when the stand-in has died; -1: there is none. */
int stand_in_process(void);

#endif
