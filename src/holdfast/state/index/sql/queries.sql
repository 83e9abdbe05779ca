-- All statements of the index, by name. page_query.py replaces the braces with other pieces of this file, names of
-- columns and numbers of parameters; never with a value.

-- name: put_run
INSERT INTO runs (
    run_id, begun_ns, name, session, parent, status, cause, state, exit_code, signal, started_at, verdict_at,
    settled_at, duration_s, tree, containment, stdout_bytes, stderr_bytes, journal_bytes, disk_bytes, problem, labels,
    argv
) VALUES (
    :run_id, :begun_ns, :name, :session, :parent, :status, :cause, :state, :exit_code, :signal, :started_at,
    :verdict_at, :settled_at, :duration_s, :tree, :containment, :stdout_bytes, :stderr_bytes, :journal_bytes,
    :disk_bytes, :problem, :labels, :argv
);

-- name: put_report
INSERT INTO reports (run_id, report) VALUES (:run_id, :report);

-- name: put_label
INSERT INTO labels (label, value, begun_ns, run_id) VALUES (?, ?, ?, ?);

-- name: forget
DELETE FROM runs WHERE run_id = ?;

-- name: get
SELECT runs.run_id, runs.begun_ns, reports.report, runs.problem, runs.journal_bytes, runs.disk_bytes
FROM runs JOIN reports USING (run_id)
WHERE runs.run_id = :run_id;

-- name: part
SELECT run_id FROM runs
WHERE instr(run_id, :text)
ORDER BY substr(run_id, 1, length(:text)) <> :text AND substr(run_id, -length(:text)) <> :text, run_id
LIMIT :limit;

-- name: sessions
SELECT session, count(*), max(begun_ns) FROM runs WHERE session IS NOT NULL GROUP BY session;

-- name: count
SELECT count(*) FROM runs;

-- name: sizes
SELECT run_id, begun_ns, disk_bytes, tree FROM runs ORDER BY begun_ns DESC, run_id DESC;

-- name: timings
SELECT runs.begun_ns, runs.status, runs.duration_s, json_extract(reports.report, '$.queued_at'), runs.started_at
FROM runs CROSS JOIN reports ON reports.run_id = runs.run_id
WHERE runs.begun_ns >= :since_ns AND runs.begun_ns < :until_ns
ORDER BY runs.begun_ns DESC, runs.run_id DESC
LIMIT :limit;

-- name: page
SELECT runs.run_id, runs.begun_ns, reports.report, runs.problem, runs.journal_bytes, runs.disk_bytes
FROM {source} CROSS JOIN reports ON reports.run_id = runs.run_id
WHERE {conditions}
ORDER BY {driver}.begun_ns DESC, {driver}.run_id DESC
LIMIT :limit;

-- name: from_runs
runs

-- name: from_labels
labels CROSS JOIN runs ON runs.run_id = labels.run_id

-- name: probe
SELECT count(*), min(begun_ns) FROM (
    SELECT begun_ns FROM runs WHERE {column} = :{column} ORDER BY begun_ns DESC, run_id DESC LIMIT :limit
);

-- name: probe_label
SELECT count(*), min(begun_ns) FROM (
    SELECT begun_ns FROM labels WHERE label = :label_{number} AND value = :value_{number}
    ORDER BY begun_ns DESC, run_id DESC LIMIT :limit
);

-- name: where_label
labels.label = :label_{number} AND labels.value = :value_{number}

-- name: where_also_label
EXISTS (
    SELECT 1 FROM labels AS also
    WHERE also.label = :label_{number} AND also.value = :value_{number}
        AND also.begun_ns = runs.begun_ns AND also.run_id = runs.run_id
)

-- name: where_column
{plus}runs.{column} = :{column}

-- name: where_since
{driver}.begun_ns >= :since_ns

-- name: where_until
{driver}.begun_ns < :until_ns

-- name: where_after
({driver}.begun_ns, {driver}.run_id) < (:after_ns, :after_id)
