/* budget: records when a run has spent its memory, its processes, its output or its CPU time */
#include "budget.h"

#include <unistd.h>

#include "phases.h"
#include "tree.h"

static bool record_limit(struct run *run, enum limit what, uint64_t most, uint64_t seen) {
    const struct fact_limit limit = {.what = (int32_t)what, .limit = most, .seen = seen};
    journal_fact(&run->journal, FACT_LIMIT, &limit, sizeof limit);
    return true;
}

static bool record_oom(struct run *run, uint64_t kills) {
    const struct fact_oom oom = {.kills = kills};
    journal_fact(&run->journal, FACT_OOM, &oom, sizeof oom);
    return true;
}

/*
 * User and system time of the whole tree so far. The v2 leaf counts every process that was ever in it. Without a leaf,
 * the guard adds up the live processes with the children that they have reaped, and what it has reaped itself. That
 * misses a child whose parent ignores SIGCHLD: the kernel gives its time to nobody.
 */
static uint64_t cpu_used_ns(const struct run *run, uint64_t live_ticks) {
    const uint64_t counted_us = cgroup_cpu_us(&run->cgroup);
    if (counted_us > 0)
        return counted_us * 1000u;
    const uint64_t reaped_us = (uint64_t)(run->usage.user_us + run->usage.system_us);
    return live_ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)) + reaped_us * 1000u;
}

bool run_record_budgets(struct run *run) {
    const struct cgroup *cgroup = &run->cgroup;
    const uint64_t memory = run->spec.options.memory_bytes, processes = run->spec.options.processes;
    const bool sample_memory = memory > 0 && !cgroup_keeps_memory(cgroup);
    const bool sample_pids = processes > 0 && !cgroup_keeps_pids(cgroup);
    const uint64_t oom_kills = memory > 0 ? cgroup_oom_kills(cgroup) : 0;
    if (oom_kills > 0)
        return record_oom(run, oom_kills);
    if (processes > 0 && cgroup_refused_forks(cgroup) > 0)
        return record_limit(run, LIMIT_PROCESSES, processes, processes + 1);
    const uint64_t cpu_ns = run->spec.options.cpu_ns;
    if (!sample_memory && !sample_pids && cpu_ns == 0)
        return false;
    const struct tree_usage usage =
        tree_usage(sample_pids ? processes : UINT64_MAX, sample_memory ? memory : UINT64_MAX);
    if (sample_memory && usage.memory_bytes > memory)
        return record_limit(run, LIMIT_MEMORY, memory, usage.memory_bytes);
    if (sample_pids && usage.tasks > processes)
        return record_limit(run, LIMIT_PROCESSES, processes, usage.tasks);
    /* Unlike the others, this one stays spent: it goes on record once. */
    const uint64_t used_ns = cpu_ns > 0 && run_may_begin_stop(run) ? cpu_used_ns(run, usage.cpu_ticks) : 0;
    return used_ns > cpu_ns && record_limit(run, LIMIT_CPU, cpu_ns, used_ns);
}

bool run_record_session_budget(struct run *run) {
    struct session_excess excess;
    if (run->session.table < 0)
        return false;
    const struct tree_usage usage = tree_usage(UINT64_MAX, UINT64_MAX);
    return session_budget_exceeded(&run->session, &usage, &excess) &&
           record_limit(run, excess.what, excess.limit, excess.seen);
}

void run_record_output_limit(struct run *run) {
    record_limit(run, LIMIT_OUTPUT, run->output.cap, run->output.seen_bytes);
}
