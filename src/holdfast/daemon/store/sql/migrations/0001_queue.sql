-- Runs that have not started. `submission` is the posted JSON with the values of the environment. So the row is deleted
-- when the run starts, and only the file's owner may read it.
CREATE TABLE queue (
    sequence   INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT NOT NULL UNIQUE,
    queued_ns  INTEGER NOT NULL,
    submission BLOB NOT NULL
) STRICT;

-- Runs that were started and whose end has not been published. A run in neither table is over, or another process
-- started it.
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
