/* budget: records when a run has spent its memory, its processes or its output */
#include "budget.h"

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
    if (!sample_memory && !sample_pids)
        return false;
    const struct tree_usage usage = tree_usage();
    if (sample_memory && usage.memory_bytes > memory)
        return record_limit(run, LIMIT_MEMORY, memory, usage.memory_bytes);
    if (sample_pids && usage.tasks > processes)
        return record_limit(run, LIMIT_PROCESSES, processes, usage.tasks);
    return false;
}

void run_record_output_limit(struct run *run) {
    record_limit(run, LIMIT_OUTPUT, run->output.cap, run->output.seen_bytes);
}
