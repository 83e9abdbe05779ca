-- name: expect
INSERT INTO deliveries (run_id, url, origin, state) VALUES (:run_id, :url, :origin, 'waiting') ON CONFLICT DO NOTHING;

-- name: is_waiting
SELECT 1 FROM deliveries WHERE run_id = :run_id AND state = 'waiting';

-- name: decide
UPDATE deliveries SET state = 'pending', body = :body, due_ms = :now_ms WHERE run_id = :run_id AND state = 'waiting';

-- name: waiting
SELECT run_id FROM deliveries WHERE state = 'waiting' ORDER BY run_id;

-- name: due
-- A few of each origin, so that an origin that does not answer takes no room from the others.
SELECT run_id, url, tries, body FROM deliveries WHERE run_id IN (
  SELECT run_id FROM (
    SELECT run_id, due_ms, row_number() OVER (PARTITION BY origin ORDER BY due_ms, run_id) AS place
    FROM deliveries WHERE state = 'pending' AND due_ms <= :now_ms
  ) WHERE place <= :of_each ORDER BY due_ms LIMIT :limit
);

-- name: outlook
-- How many deliveries are pending, and when the next one becomes due.
SELECT count(*), min(due_ms) FILTER (WHERE due_ms > :now_ms) FROM deliveries WHERE state = 'pending';

-- name: delivered
UPDATE deliveries SET state = 'delivered', tries = tries + 1, body = NULL, due_ms = NULL, ended_ms = :now_ms,
  last_error = NULL
WHERE run_id = :run_id AND state = 'pending';

-- name: retry
UPDATE deliveries SET tries = tries + 1, due_ms = :due_ms, last_error = :error
WHERE run_id = :run_id AND state = 'pending';

-- name: failed
UPDATE deliveries SET state = 'failed', tries = tries + :tried, body = NULL, due_ms = NULL, ended_ms = :now_ms,
  last_error = :error
WHERE run_id = :run_id AND state IN ('waiting', 'pending');

-- name: show
SELECT origin, state, tries, due_ms, ended_ms, last_error FROM deliveries WHERE run_id = :run_id;

-- name: prune
DELETE FROM deliveries WHERE state IN ('delivered', 'failed') AND ended_ms < :before_ms;
