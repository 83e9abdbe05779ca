-- The first version: runs, their reports, their labels.
--
-- Lists are ordered by (begun_ns, run_id). Every run has the time at which it was begun, whether or not it ever started.
-- Each SQL index ends in these two columns, so SQLite reads a page of any filter in order and stops after its last row.

CREATE TABLE runs (
    run_id TEXT NOT NULL PRIMARY KEY,
    begun_ns INTEGER NOT NULL,
    name TEXT,
    session TEXT,
    parent TEXT,
    status TEXT,
    cause TEXT,
    state TEXT,
    exit_code INTEGER,
    signal INTEGER,
    started_at TEXT,
    verdict_at TEXT,
    settled_at TEXT,
    duration_s REAL,
    tree TEXT,
    containment TEXT,
    stdout_bytes INTEGER,
    stderr_bytes INTEGER,
    journal_bytes INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL,
    problem TEXT,
    labels TEXT NOT NULL,
    argv TEXT
) STRICT;

-- Reports are apart from the rows that SQLite searches, because a report has kilobytes.
CREATE TABLE reports (
    run_id TEXT NOT NULL PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    report TEXT NOT NULL
) STRICT;

CREATE TABLE labels (
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    begun_ns INTEGER NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    PRIMARY KEY (label, value, begun_ns, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX labels_by_run ON labels (run_id);
CREATE INDEX runs_by_time ON runs (begun_ns, run_id);
CREATE INDEX runs_by_status ON runs (status, begun_ns, run_id);
CREATE INDEX runs_by_cause ON runs (cause, begun_ns, run_id);
CREATE INDEX runs_by_session ON runs (session, begun_ns, run_id);
CREATE INDEX runs_by_session_and_status ON runs (session, status, begun_ns, run_id);
CREATE INDEX runs_by_parent ON runs (parent, begun_ns, run_id);
CREATE INDEX runs_by_name ON runs (name, begun_ns, run_id);
