/* frame: the wire format of the journal, the spec and the control packets */
#ifndef HOLDFAST_FRAME_H
#define HOLDFAST_FRAME_H

/*
 * A frame is a 24-byte little-endian header and `length` bytes of payload. The journal is a 16-byte preamble
 * (FRAME_PREAMBLE, then the u32 FRAME_VERSION and a u32 zero) followed by frames. The spec is frames only. A control
 * packet is exactly one frame. src/holdfast/journal/facts.py holds the same tables for Python, and a test compares the
 * two files name by name.
 *
 * A header is valid when its mark and its check are right. The check is a CRC-32 of the header's other fields and,
 * except for OUTPUT, of the payload: facts decide outcomes and are small; output is large and decides nothing.
 */

#include <stddef.h>
#include <stdint.h>

#define FRAME_PREAMBLE "HOLDFAST"
#define FRAME_VERSION 1u
#define FRAME_MARK 0x46444c48u /* "HLDF" */
#define FRAME_LATE 1u          /* flag on OUTPUT: written after the verdict */

struct frame {
    uint32_t mark;
    uint16_t type;
    uint8_t stream; /* OUTPUT only: 1 stdout (or the terminal), 2 stderr */
    uint8_t flags;
    uint32_t length;
    uint32_t check;
    uint64_t at_ns; /* CLOCK_BOOTTIME in the journal; the caller's ticket in a control packet; 0 in a spec */
};
_Static_assert(sizeof(struct frame) == 24, "the frame header is part of the file format");

/* Facts: what a journal holds. Their names are in the past tense; the structs below are their payloads. */
enum fact {
    FACT_HEADER = 1,           /* JSON, written by the launcher */
    FACT_SPEC = 2,             /* JSON, written by the launcher; no environment values */
    FACT_STARTED = 3,          /* struct fact_started, then the cgroup's path */
    FACT_OUTPUT = 4,           /* raw bytes */
    FACT_WARNED = 5,           /* struct fact_warned */
    FACT_STOP_ASKED = 6,       /* struct fact_stop_asked, then the reason */
    FACT_DEADLINE = 7,         /* struct fact_expired, then what the command was doing (doing.h) */
    FACT_IDLE = 8,             /* struct fact_expired, then what the command was doing */
    FACT_LIMIT = 9,            /* struct fact_limit */
    FACT_OOM = 10,             /* struct fact_oom */
    FACT_SIGNALLED = 11,       /* struct fact_signalled */
    FACT_EXITED = 12,          /* struct fact_exited */
    FACT_STRAGGLERS = 13,      /* struct fact_stragglers */
    FACT_DRAINED = 14,         /* struct fact_drained */
    FACT_TREE = 15,            /* struct fact_tree, then one line of text per survivor */
    FACT_END = 16,             /* struct fact_end */
    FACT_SPAWN_FAILED = 17,    /* struct fact_spawn_failed */
    FACT_EXTENDED = 18,        /* struct fact_extended */
    FACT_STOPPED = 19,         /* struct fact_stopped */
    FACT_CONTINUED = 20,       /* no payload */
    FACT_OWNER_GONE = 21,      /* struct fact_owner */
    FACT_OWNER_CAME = 22,      /* struct fact_owner */
    FACT_RECORDING_FAILED = 23, /* struct fact_recording_failed */
    FACT_LOST = 24,            /* struct fact_lost; written by the process that finds the guard gone */
    FACT_ENTERED = 25,         /* struct fact_entered, then the container's name */
    FACT_CONTAINER_LOST = 26,  /* struct fact_container_lost, then the runtime's message */
    FACT_VANISHED = 27,        /* no payload: a foreign process has ended, and only its parent can know how */
    FACT_ORDER_UNKNOWN = 28,   /* no payload: the guard cannot know whether the command ended before its deadline */
    FACT_GRACE_SHORTENED = 29, /* struct fact_grace_shortened; follows the STOP_ASKED of the same request */
    FACT_GUARD_LOST = 30,      /* struct fact_guard_lost; written by the sentinel, which ends the run */
    FACT_REPEATED = 31,        /* struct fact_repeated */
    FACT_SENTINEL_LOST = 32,   /* struct fact_sentinel_lost: the guard goes on without its sentinel */
    FACT_RECORDING_STALLED = 33, /* struct fact_recording_stalled; behind END when storage came back only after it */
    FACT_OUTPUT_ROLLING = 36,  /* struct fact_output_rolling: the head is full; of what comes now, the end is kept */
    FACT_OUTPUT_ROLLED = 37,   /* struct fact_output_rolled: what is missing between the head and the tail */
    FACT_KEPT_ON = 38,         /* no struct, then the id of the run in which the stragglers go on */
    FACT_OUTPUT_GAP = 40,      /* struct fact_output_gap: written again when output behind it is taken out (roll.h) */
};

enum stop_cause { CAUSE_USER = 1, CAUSE_SHUTDOWN, CAUSE_PARENT, CAUSE_SESSION, CAUSE_OWNER, CAUSE_SUPERSEDED };
enum containment { CONTAINMENT_SUBREAPER = 1, CONTAINMENT_CGROUP = 2, CONTAINMENT_CONTAINER = 3, CONTAINMENT_NONE = 4 };
enum limit {
    LIMIT_MEMORY = 1,
    LIMIT_PROCESSES = 2,
    LIMIT_OUTPUT = 3,
    LIMIT_CPU = 4,
    LIMIT_SESSION_MEMORY = 5, /* the budget of the whole session */
    LIMIT_SESSION_PROCESSES = 6,
};
enum drain_end { DRAIN_EOF = 1, DRAIN_IDLE = 2, DRAIN_ABSOLUTE = 3, DRAIN_INTERRUPTED = 4 };
enum tree_end { TREE_GONE = 1, TREE_SURVIVORS = 2, TREE_UNKNOWN = 3 };
enum stragglers { STRAGGLERS_KILL = 1, STRAGGLERS_WAIT = 2, STRAGGLERS_LEAVE = 3, STRAGGLERS_SESSION = 4 };
enum spawn_step { STEP_SETUP = 1, STEP_FORK = 2, STEP_STDIO = 3, STEP_CHDIR = 4, STEP_EXEC = 5, STEP_INTERPRETER = 6 };
enum lost_why { LOST_GUARD = 1, LOST_HOST = 2 };
enum guard_lost_why { GUARD_LOST_DIED = 1, GUARD_LOST_STOPPED = 2, GUARD_LOST_STUCK = 3, GUARD_LOST_UNSEEN = 4 };
enum container_why { CONTAINER_REFUSED = 1, CONTAINER_GONE = 2, CONTAINER_UNREACHABLE = 3 };

struct fact_started {
    int32_t pid;
    int32_t guard_pid;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: with the boot id, an identity that survives PID reuse */
    uint32_t containment;
    uint32_t reserved;
};
struct fact_warned {
    int32_t signal;
    int32_t reached; /* processes with a handler for the signal; the others do not get it */
};
struct fact_stop_asked {
    int32_t cause;
    int32_t signal; /* the signal to the guard that asked for the stop, or 0 */
    int32_t by_pid; /* the process that asked; 0: unknown */
    int32_t by_uid;
};
struct fact_grace_shortened {
    int32_t by_pid; /* the process that asked; 0: unknown */
    int32_t by_uid;
    uint64_t grace_ns; /* SIGKILL follows this long after the request, if not sooner */
};
struct fact_expired {
    uint64_t limit_ns;
};
struct fact_limit {
    int32_t what;
    int32_t reserved;
    uint64_t limit; /* bytes, processes or, for CPU time, nanoseconds */
    uint64_t seen;
};
struct fact_oom {
    uint64_t kills;
};
struct fact_signalled {
    int32_t signal;
    int32_t rung; /* 0 is the first; -1: an owner asked for this one signal */
    int32_t reached;
    int32_t refused; /* EPERM: a process of another user */
};
struct fact_exited {
    int32_t wait_status; /* raw, as wait4 gave it */
    int32_t reserved;
    int64_t user_us;
    int64_t system_us;
    int64_t max_rss_kib;
};
struct fact_stragglers {
    int32_t count;
    int32_t policy;
};
struct fact_drained {
    int32_t how;
    int32_t reserved;
    uint64_t stdout_bytes; /* recorded bytes, late ones included */
    uint64_t stderr_bytes;
    uint64_t late_bytes;
    uint64_t dropped_bytes; /* read but not recorded: beyond the cap, or the journal could not take them */
};
struct fact_tree {
    int32_t how;
    int32_t count;
};
struct fact_end {
    int64_t user_us; /* of the whole tree, as far as the guard has reaped it */
    int64_t system_us;
    int64_t max_rss_kib;
};
struct fact_spawn_failed {
    int32_t step;
    int32_t error; /* errno */
};
struct fact_extended {
    uint64_t limit_ns; /* the new deadline, measured from the start */
};
struct fact_stopped {
    int32_t signal;
};
struct fact_owner {
    int32_t pid;
    int32_t uid;
};
struct fact_recording_failed {
    int32_t error; /* errno of the write */
    int32_t reserved;
};
struct fact_recording_stalled {
    uint64_t for_ns; /* how long the journal's storage had taken nothing, up to now */
};
struct fact_lost {
    int32_t why;
    int32_t reserved;
};
struct fact_guard_lost {
    int32_t guard_pid;
    int32_t wait_status; /* raw, of the guard; 0: it had not died when the sentinel took over */
    int32_t why;
    int32_t stops; /* how often it was stopped */
};
struct fact_sentinel_lost {
    int32_t pid;
    int32_t reserved;
};
struct fact_output_rolling {
    uint64_t limit; /* bytes: for head and tail together */
    uint64_t tail;  /* so many of the last bytes are kept, or up to an eighth less */
};
struct fact_output_rolled {
    uint64_t stdout_bytes; /* not kept, between the head and the tail */
    uint64_t stderr_bytes;
};
struct fact_output_gap {
    uint64_t resume_at; /* the journal goes on at this offset; what is between is a hole */
    uint64_t stdout_bytes; /* so much output was recorded before that offset; of stdout, and so on */
    uint64_t late_stdout_bytes;
    uint64_t stderr_bytes;
    uint64_t late_stderr_bytes;
};
struct fact_entered {
    int32_t pid;       /* of the command, in the PID namespace of the container */
    int32_t agent_pid; /* of the agent, in the same namespace */
    uint64_t start_ticks;
};
struct fact_container_lost {
    int32_t why;
    int32_t reserved;
};

struct fact_repeated {
    int32_t of; /* the type of a fact that has come a thousand times: after that it is only counted */
    int32_t reserved;
    uint64_t count; /* how many were counted so far and not recorded */
    uint64_t last_ns; /* when the last of them came */
};

/* Spec frames: what the launcher tells the guard. A string ends in NUL; a list is one string after another. */
enum spec_part {
    PART_OPTIONS = 32, /* struct spec_options */
    PART_ARGV = 33,
    PART_ENV = 34,
    PART_CWD = 35,
    PART_LADDER = 36,       /* struct spec_rung, one or more */
    PART_RUN_ID = 37,
    PART_CGROUP = 38,       /* directory of a writable cgroup v2 in which to make the leaf */
    PART_MEMORY_GROUP = 39, /* directory of a writable cgroup with the memory controller (v1), when there is one */
    PART_PIDS_GROUP = 40,   /* likewise for pids */
    PART_CONTAINER = 41,    /* the name of the container in which the command runs; the next five parts come with it */
    PART_ENTER = 42,        /* the command line that starts the agent there; PART_ARGV attaches to it */
    PART_COPY = 43,         /* the command line that copies the agent there */
    PART_LOOK = 44,         /* the command line that says what became of the container */
    PART_SWEEP = 45,        /* the command line that ends what carries the run's token there */
    PART_INSIDE = 46,       /* the agent's own spec, whole */
    PART_FOREIGN = 47,      /* struct spec_foreign: no command is started; this process is watched */
    PART_DESCRIPTORS = 48,  /* uint64_t: the soft limit on descriptors that the command gets */
};

enum spec_flag {
    SPEC_PTY = 1 << 0,             /* stdin is a terminal's slave; GUARD_FD_INPUT is its master */
    SPEC_MERGE = 1 << 1,           /* stderr goes to stdout's pipe */
    SPEC_KEEP_INPUT = 1 << 2,      /* GUARD_FD_INPUT is the write end of stdin: keep it for later owners */
    SPEC_LISTEN = 1 << 3,          /* GUARD_FD_LISTEN is a listening socket, GUARD_FD_DIRECTORY its directory */
    SPEC_OUTPUT_DROPS = 1 << 4,    /* beyond the output cap: drop and count, do not stop the run */
    SPEC_NESTED = 1 << 5,          /* a signal to the guard comes from the parent run, which wants this one to end */
    SPEC_OWNED = 1 << 6,           /* the run stops when its owner goes away */
    SPEC_IDLE_OUTPUT = 1 << 7,     /* what counts as activity for the idle clock */
    SPEC_IDLE_CPU = 1 << 8,
    SPEC_IDLE_HEARTBEAT = 1 << 9,
    SPEC_WAKE_OUTPUT = 1 << 10,    /* the owner wants to be woken when there is output */
    SPEC_CGROUP_CONTROLS = 1 << 11, /* the v2 leaf has memory and pids controllers: set the budgets there */
    SPEC_AGAIN = 1 << 12,           /* when the tree is gone, wait for PACKET_NEXT instead of exiting */
    SPEC_GRACE_LADDER = 1 << 13,    /* the ladder is made from the grace alone: SIGTERM, the grace, SIGKILL */
    SPEC_OUTPUT_ROLLS = 1 << 14,    /* beyond the output cap: keep the head and the tail, do not stop the run */
    SPEC_GIVES_STDOUT = 1 << 15,    /* GUARD_FD_STDOUT is the command's own stdout: the guard captures nothing of it */
    SPEC_GIVES_STDERR = 1 << 16,    /* likewise GUARD_FD_STDERR */
    SPEC_WITH_STARTER = 1 << 17,    /* the run stops when GUARD_FD_STARTER is readable */
    SPEC_SESSION_BUDGET = 1 << 18,  /* GUARD_FD_SESSION is the table of what the session uses */
    SPEC_WITH_ENTRY = 1 << 19,      /* GUARD_FD_ENTRY has a struct entry for the child, and hears of its exec */
};

struct spec_options {
    uint32_t flags;
    int32_t stragglers;
    int32_t warn_signal;
    int32_t owner_pid;
    uint64_t deadline_ns; /* 0: none, here and below */
    uint64_t ceiling_ns;  /* an extension never moves the deadline past this; 0: no ceiling */
    uint64_t idle_ns;
    uint64_t warn_before_ns;
    uint64_t drain_ns;
    uint64_t drain_idle_ns;
    uint64_t kill_wait_ns;
    uint64_t memory_bytes;
    uint64_t processes;
    uint64_t output_bytes;
    uint64_t window_bytes; /* unread journal bytes beyond which the command has to wait; 0: the owner does not read yet */
    uint64_t cpu_ns;       /* user and system time of the whole tree */
};

struct spec_foreign {
    int32_t pid;
    int32_t reserved;
    uint64_t start_ticks;
};

struct spec_rung {
    int32_t signal;
    int32_t reserved;
    uint64_t wait_ns;
};

/* Control packets. The guard answers a request with ANSWER and the same ticket, unless it says `no answer` here. */
enum packet {
    PACKET_STOP = 64,        /* struct packet_stop, then the reason */
    PACKET_SIGNAL = 65,      /* struct packet_signal */
    PACKET_EXTEND = 66,      /* struct packet_extend */
    PACKET_READ = 67,        /* struct packet_read: wake me when there is output I have not seen; no answer */
    PACKET_GIVE_INPUT = 68,  /* answered with the descriptor for stdin or the terminal */
    PACKET_CLOSE_INPUT = 69, /* the guard closes its own copy */
    PACKET_HEARTBEAT = 70,
    PACKET_NEXT = 71,   /* the next run, for a guard that has ended one: its spec and descriptors; no answer */
    PACKET_STOP_WITHIN = 74, /* struct packet_stop_within, then the reason */
    PACKET_KEEP = 75, /* the stragglers go on as the run of this id; its descriptors come with it (successor.h) */
    PACKET_ANSWER = 80, /* struct packet_answer */
    PACKET_WAKE = 81,   /* struct packet_wake */
    PACKET_UNRECORDED = 82, /* struct packet_unrecorded, with a descriptor: the run has ended, the rest is in there */
};

enum signal_scope { SCOPE_LEADER = 1, SCOPE_TREE = 2 };

struct packet_stop {
    int32_t cause;
    int32_t now;    /* go to the last rung at once */
    int32_t signal; /* the signal that made the caller ask, or 0 */
    int32_t person; /* not 0: a person asks, and to ask a second time is to insist (stop.h) */
};
/*
 * A stop that brings a grace of its own. It may shorten the grace of the ladder, and never makes it longer. A packet of
 * its own, because an older guard would take the grace for a part of the reason; this one it refuses.
 */
struct packet_stop_within {
    int32_t cause; /* up to here as in packet_stop */
    int32_t now;
    int32_t signal;
    int32_t person;
    uint64_t grace_ns;
};
struct packet_signal {
    int32_t signal;
    int32_t scope;
};
struct packet_extend {
    uint64_t by_ns;
};
struct packet_read {
    uint64_t consumed; /* the owner needs nothing before this journal offset any more; 0 says nothing about that */
    uint64_t seen;     /* the owner has read up to here: output beyond it wakes at once; or READ_NO_WAKE */
};
#define READ_NO_WAKE UINT64_MAX
#define READ_HOLDS_NOTHING UINT64_MAX /* as `consumed`: the owner does not read the output (any more) */
struct packet_answer {
    int32_t error; /* 0 or an errno: ESRCH too late, ERANGE over the ceiling, EPERM not from inside, EINVAL, ... */
    int32_t reserved;
};
struct packet_wake {
    uint64_t journal_length;
};
struct packet_unrecorded {
    uint64_t kept_from; /* the descriptor, a memfd, has the journal from here, at the journal's own offsets */
    uint64_t length;    /* up to here, END included */
    uint64_t stalled_ns; /* how long the journal's storage has taken nothing */
};

/* Descriptors that the guard is started with. */
enum guard_fd {
    GUARD_FD_STDIN = 0, /* the command's */
    GUARD_FD_JOURNAL = 3,
    GUARD_FD_CONTROL = 4,
    GUARD_FD_SPEC = 5,
    GUARD_FD_INPUT = 6,
    GUARD_FD_LISTEN = 7,
    GUARD_FD_DIRECTORY = 8,
    GUARD_FD_HEARTBEAT = 9,
    GUARD_FD_STDOUT = 10, /* the command's, with SPEC_GIVES_STDOUT */
    GUARD_FD_STDERR = 11,
    GUARD_FD_STARTER = 12, /* readable when the process that started the owner is gone: its pidfd */
    GUARD_FD_SESSION = 13, /* struct session_entry[SESSION_ENTRIES]; its offset is that of this run's entry */
    GUARD_FD_ENTRY = 14,   /* a socket with one message: a struct entry and the descriptors that it numbers */
    GUARD_FD_FIRST_FREE = 15,
};

/*
 * What the child does last before it executes the command. Behind it come `groups` numbers of groups, then the
 * `descriptors` numbers that the passed descriptors get, each of 32 bits, then the path or the name of the program with
 * its NUL; an empty one: argv[0]. If exec fails, the child answers with a struct fact_spawn_failed.
 */
enum { ENTRY_DESCRIPTORS_MAX = 253, ENTRY_MAX = 16384 }; /* SCM_MAX_FD of the kernel */
struct entry {
    uint64_t ignored;     /* signals that the command ignores: bit 0 is signal 1 */
    int32_t umask;        /* -1: as this guard's */
    int32_t groups;       /* -1: as this guard's */
    uint32_t user;        /* ~0: as this guard's */
    uint32_t group;       /* ~0: as this guard's */
    uint32_t descriptors; /* at most ENTRY_DESCRIPTORS_MAX */
    uint32_t unused;
};

/* What one run of a session uses. The first entry of the table has the budgets instead; 0: no budget. */
enum { SESSION_ENTRIES = 256 };
enum session_state { SESSION_RUNNING = 0, SESSION_ENDING = 1 };
struct session_entry {
    uint64_t memory_bytes;
    uint64_t processes;
    uint64_t looked_ns; /* on CLOCK_MONOTONIC */
    uint64_t state;
};

/* The descriptors that come with PACKET_NEXT, in this order; a bit in its ticket for each. Without stdin: /dev/null. */
enum next_descriptor {
    NEXT_JOURNAL,
    NEXT_STDIN,
    NEXT_HEARTBEAT,
    NEXT_STDOUT,
    NEXT_STDERR,
    NEXT_DIRECTORY,
    NEXT_COUNT
};
/* The descriptors that come with PACKET_KEEP, all of them, in this order. */
enum keep_descriptor { KEEP_JOURNAL, KEEP_LISTEN, KEEP_DIRECTORY, KEEP_COUNT };
/* The longest spec that fits into the packet; a run with a longer one gets a guard of its own. */
enum { NEXT_SPEC_MAX = 32 * 1024 };

/* Exit codes of the guard itself. They decide nothing: the journal is the truth. */
enum guard_exit { GUARD_OK = 0, GUARD_BAD_SPEC = 2, GUARD_NO_JOURNAL = 3, GUARD_NO_SETUP = 4 };

#endif
