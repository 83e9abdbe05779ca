"""A chaos test: real runs of misbehaving commands while guards, sentinels and owners are killed or stopped.

`python -m chaos --runs N --seed S`, in each containment that there is. A driver starts owner processes, which start
durable runs in one state directory, and reader processes, which cancel, sweep and list. At seeded moments, SIGKILL goes
to guards, sentinels, the writers of journals, owners, readers, leaders and other processes of runs, and SIGSTOP to
guards, sentinels, writers and owners. After each round everything is compared with what must hold:

1. no process, cgroup or socket of any run is left;
2. every run is terminal, and its outcome is the one that its journal supports, by an oracle that shares no code with
   the product;
3. every byte that was once seen in a journal is still there, and the lines of writers have no gap;
4. deadlines hold, whichever process was killed or stopped;
5. the index has every run exactly once, with the journal's own answer.

What happens to run N is drawn from (seed, N) alone; when it happens also depends on the machine, which is the point.
"""
