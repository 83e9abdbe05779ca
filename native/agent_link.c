/* agent_link: the guard's link to its agent in a container, and the runtime's clients that hold it */
#include "agent_link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

enum { ENTER_ATTEMPTS = 3, LOOKS_MAX = 8, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

void agent_link_init(struct agent_link *link) {
    *link = (struct agent_link){.fd = -1, .runtime_stderr = -1, .look_answer = -1};
}

/* ── children ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* In a forked child: becomes the runtime's client with these descriptors. It dies with its parent. */
static _Noreturn void become_client(char **argv, char **env, pid_t parent, const int *stdio) {
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(NOT_EXECUTABLE);
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(stdio[fd], fd) < 0)
            _exit(NOT_EXECUTABLE);
    }
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(argv[0], argv, env);
    _exit(NOT_FOUND);
}

static int run_client(char **argv, char **env, const int *stdio) {
    const pid_t parent = getpid(), pid = fork();
    int status;
    if (pid == 0)
        become_client(argv, env, parent, stdio);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return NOT_EXECUTABLE;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether the agent is missing or cut short: a guard that is killed while it copies leaves half a program. */
static bool is_missing(int code) {
    return code == NOT_FOUND || code == NOT_EXECUTABLE || code == 128 + SIGSEGV || code == 128 + SIGBUS ||
           code == 128 + SIGILL;
}

static bool forget_words(int said) { return ftruncate(said, 0) == 0; }

/*
 * Copies the agent into the container. Only one guard copies at a time, because a copy that is being written cannot be
 * executed. A guard that has waited for the lock first looks whether the agent is there now.
 */
static int bring(const struct spec *spec, const int *silent) {
    int lock = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), code = 1;
    if (lock >= 0 && flock(lock, LOCK_EX) == 0)
        code = run_client(spec->sweep, spec->env, silent); /* finds nobody; shows whether the agent can run */
    if (code != 0 && forget_words(silent[0]))
        code = run_client(spec->copy, spec->env, silent);
    if (lock >= 0)
        close(lock);
    return code;
}

/*
 * Closes every descriptor but the link, the file and stdio, in the child that enters. That child lives as long as the
 * agent: with a copy of either end of the command's stdin, it would keep that stdin from ending.
 */
static bool keep_only(int *link, int *said) {
    enum { LINK = 3, SAID, FIRST_OTHER };
    const int moved[] = {fcntl(*link, F_DUPFD_CLOEXEC, FIRST_OTHER), fcntl(*said, F_DUPFD_CLOEXEC, FIRST_OTHER)};
    *link = LINK;
    *said = SAID;
    if (moved[0] < 0 || moved[1] < 0 || dup3(moved[0], LINK, O_CLOEXEC) < 0 || dup3(moved[1], SAID, O_CLOEXEC) < 0 ||
        dup2(1, 0) < 0)
        return false;
    close_between(FIRST_OTHER, ~0u, 0);
    return true;
}

/*
 * From the second run on the agent is in the container already. So the child calls the agent first, and copies it only
 * when it was not found. That saves one call of the runtime. Only the stderr of the last attempt is kept.
 */
static _Noreturn void enter(const struct spec *spec, int link, int said, pid_t guard) {
    int code = NOT_FOUND;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != guard || !keep_only(&link, &said))
        _exit(NOT_EXECUTABLE);
    const int talking[] = {link, link, said}, silent[] = {said, said, said};
    for (int attempt = 0; attempt < ENTER_ATTEMPTS; attempt++) {
        if (attempt > 0) {
            code = bring(spec, silent);
            if (code != 0)
                break;
        }
        if (!forget_words(said))
            break;
        code = run_client(spec->enter, spec->env, talking);
        if (!is_missing(code))
            break;
    }
    _exit(code);
}

static int scratch_file(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) < 0) { /* several processes write, and truncate in between */
        close(fd);
        return -1;
    }
    return fd;
}

bool agent_link_open(struct agent_link *link, const struct spec *spec) {
    int ends[2];
    const pid_t guard = getpid();
    link->runtime_stderr = scratch_file("holdfast-said");
    if (link->runtime_stderr < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    link->fd = ends[0];
    link->state = AGENT_ENTERING;
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]); /* or the link would stay open as long as the child that enters lives */
        enter(spec, ends[1], link->runtime_stderr, guard);
    }
    const int error = errno;
    link->enter_pid = pid > 0 ? pid : 0;
    close(ends[1]);
    errno = error;
    return pid > 0 && fcntl(link->fd, F_SETFL, O_NONBLOCK) == 0;
}

void agent_link_close(struct agent_link *link) {
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* ── the link ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool send_whole(int link, const void *data, size_t length) {
    /* A socket takes far more than AGENT_UNANSWERED_MAX notes. If it is full, the agent does not read. */
    return send(link, data, length, MSG_NOSIGNAL) == (ssize_t)length;
}

void agent_link_send(struct agent_link *link, enum note_word word, int signal, int rung) {
    const struct note note = {.mark = NOTE_MARK, .word = word, .signal = signal, .rung = rung};
    if (link->fd < 0)
        return;
    if (!send_whole(link->fd, &note, sizeof note))
        shutdown(link->fd, SHUT_RDWR); /* agent_link_receive will report silence */
    link->unanswered += word != NOTE_GO;
}

void agent_link_send_spec(struct agent_link *link, const struct spec *spec) {
    const struct note note = {.mark = NOTE_MARK, .word = NOTE_SPEC, .count = (int32_t)spec->agent_spec_length};
    if (!send_whole(link->fd, &note, sizeof note))
        shutdown(link->fd, SHUT_RDWR);
    link->unsent = spec->agent_spec_length;
    agent_link_send_rest(link, spec);
}

/* The guard sends nothing else until the agent has the whole spec and answers. */
void agent_link_send_rest(struct agent_link *link, const struct spec *spec) {
    if (link->unsent == 0 || link->fd < 0)
        return;
    const char *rest = (const char *)spec->agent_spec + (spec->agent_spec_length - link->unsent);
    ssize_t sent = send(link->fd, rest, link->unsent, MSG_NOSIGNAL);
    link->unsent -= sent > 0 ? (size_t)sent : 0;
}

enum agent_link_news agent_link_receive(struct agent_link *link, struct note *note) {
    if (link->fd < 0)
        return AGENT_NOTHING;
    ssize_t got = recv(link->fd, (char *)&link->note + link->filled, sizeof *note - link->filled, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return AGENT_NOTHING;
    link->filled += got > 0 ? (size_t)got : 0;
    if (got <= 0 || (link->filled == sizeof *note && link->note.mark != NOTE_MARK)) {
        agent_link_close(link);
        return AGENT_SILENCE;
    }
    if (link->filled < sizeof *note)
        return AGENT_NOTHING; /* the rest makes the link readable again */
    link->filled = 0;
    *note = link->note;
    return AGENT_NOTE;
}

/* ── what became of the container ─────────────────────────────────────────────────────────────────────────────── */

void agent_link_look(struct agent_link *link, const struct spec *spec) {
    if (link->look_pid > 0)
        return;
    if (link->look_answer < 0)
        link->look_answer = scratch_file("holdfast-looked");
    const pid_t guard = getpid();
    char **argv = link->looks % 2 == 0 ? spec->look : spec->sweep; /* before the fork: the memory of a run is shared */
    const pid_t pid = link->look_answer < 0 || ftruncate(link->look_answer, 0) < 0 ? -1 : fork();
    if (pid == 0) {
        const int stdio[] = {link->look_answer, link->look_answer, link->look_answer};
        become_client(argv, spec->env, guard, stdio);
    }
    link->looks++;
    if (pid > 0)
        link->look_pid = pid;
    else
        link->state = AGENT_UNREACHABLE;
}

static size_t read_text(int fd, char *text, size_t size) {
    ssize_t got = fd < 0 ? 0 : pread(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

/* The runtime's words for a container in which nothing runs. While it stops a container, it may use other words. */
static bool says_stopped(const char *answer) {
    static const char *const words[] = {"exited", "stopped", "dead", "created", "configured"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strncmp(answer, words[i], strlen(words[i])) == 0)
            return true;
    }
    return strcasestr(answer, "no such container") != NULL || strcasestr(answer, "no such object") != NULL;
}

void agent_link_reaped(struct agent_link *link, pid_t pid, int wait_status) {
    char answer[512];
    if (pid == link->enter_pid)
        link->enter_pid = 0;
    if (pid != link->look_pid || pid == 0)
        return;
    link->look_pid = 0;
    const bool swept = link->looks % 2 == 0;
    read_text(link->look_answer, answer, sizeof answer);
    if (!swept && says_stopped(answer))
        link->state = AGENT_STOPPED;
    else if ((swept && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) || link->looks >= LOOKS_MAX)
        link->state = AGENT_UNREACHABLE;
}

void agent_link_kill_clients(struct agent_link *link) {
    if (link->enter_pid > 0)
        kill(link->enter_pid, SIGKILL);
    if (link->look_pid > 0)
        kill(link->look_pid, SIGKILL);
}

bool agent_link_is_reachable(const struct agent_link *link) {
    return link->fd >= 0 && (link->state == AGENT_RUNNING || link->state == AGENT_EXITED);
}

enum tree_end agent_link_tree(const struct agent_link *link) {
    switch (link->state) {
    case AGENT_RUNNING:
    case AGENT_EXITED:
        return link->survivors > 0 ? TREE_SURVIVORS : TREE_UNKNOWN;
    case AGENT_LOST:
    case AGENT_UNREACHABLE:
        return TREE_UNKNOWN;
    case AGENT_NONE:
    case AGENT_ENTERING: /* up to HELD, the command has never run */
    case AGENT_MET:
    case AGENT_HELD:
    case AGENT_REFUSED:
    case AGENT_GONE:
    case AGENT_STOPPED:
    default:
        return TREE_GONE;
    }
}

size_t agent_link_last_words(const struct agent_link *link, char *text, size_t size) {
    size_t length = read_text(link->runtime_stderr, text, size);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    return length;
}
