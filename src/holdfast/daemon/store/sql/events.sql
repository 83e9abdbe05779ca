-- name: insert
-- Inserts nothing when the event is there already. INSERT OR IGNORE would use up an id.
INSERT INTO events (at_ms, type, run_id, session, data) SELECT :at_ms, :type, :run_id, :session, :data
WHERE NOT EXISTS (SELECT 1 FROM events WHERE run_id = :run_id AND type = :type);

-- name: find
SELECT id FROM events WHERE run_id = :run_id AND type = :type;

-- name: bounds
-- The id after which no event is missing, and the last id that was ever given.
SELECT coalesce((SELECT min(id) FROM events) - 1, seq), seq
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) AS seq);

-- name: page
SELECT id, type, run_id, session, data FROM events
WHERE id > :after AND id <= :upto
  AND (:run_ids IS NULL OR run_id IN (SELECT value FROM json_each(:run_ids)))
  AND (:session IS NULL OR session = :session)
  AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
ORDER BY id LIMIT :limit;

-- name: prune
-- By count, and by age: up to the first event that is young enough, so that a clock that was set back makes no gap.
DELETE FROM events WHERE id <= max(
  :last - :keep,
  coalesce((SELECT id FROM events WHERE at_ms >= :before_ms ORDER BY id LIMIT 1) - 1, :last)
);
