-- Published events, the oldest first. An id is never used twice, and pruning removes the oldest events. So the ids in
-- this table have no gap.
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,  -- wall clock
  type TEXT NOT NULL,
  run_id TEXT,
  session TEXT,
  data BLOB NOT NULL       -- JSON
) STRICT;

-- A run has one event of each type. A recovery may publish an event again, because it cannot know.
CREATE UNIQUE INDEX events_once ON events (run_id, type) WHERE run_id IS NOT NULL;
