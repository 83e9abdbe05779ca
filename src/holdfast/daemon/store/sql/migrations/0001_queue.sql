-- Runs that have not started. `submission` is what was posted, environment values included: the row is deleted when
-- the run starts, and the file is its owner's alone.
CREATE TABLE queue (
    sequence   INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT NOT NULL UNIQUE,
    queued_ns  INTEGER NOT NULL,
    submission BLOB NOT NULL
) STRICT;

-- Runs that were started and whose end has not been announced. A run that is in neither table is over, or not ours.
CREATE TABLE active (
    run_id          TEXT PRIMARY KEY,
    queued_ns       INTEGER NOT NULL,
    concurrency_key TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    key     TEXT PRIMARY KEY,
    digest  TEXT NOT NULL,
    run_id  TEXT NOT NULL,
    used_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (used_ns);
