-- Events that were published, oldest first. An id is never used twice, and pruning takes the oldest: so the ids that
-- are here have no gap between the first and the last.
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,  -- wall clock
  type TEXT NOT NULL,
  run_id TEXT,
  session TEXT,
  data BLOB NOT NULL       -- JSON
) STRICT;

-- Each thing happens to a run once. Whoever recovers may publish again what was perhaps published already.
CREATE UNIQUE INDEX events_once ON events (run_id, type) WHERE run_id IS NOT NULL;
