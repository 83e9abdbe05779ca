-- name: put
INSERT INTO queue (run_id, queued_ns, submission, role, uid) VALUES (:run_id, :queued_ns, :submission, :role, :uid);

-- name: all
SELECT sequence, run_id, queued_ns, submission, role, uid FROM queue ORDER BY sequence;

-- name: one
SELECT sequence, run_id, queued_ns, submission, role, uid FROM queue WHERE run_id = :run_id;

-- name: drop
DELETE FROM queue WHERE run_id = :run_id;

-- name: begin
INSERT OR IGNORE INTO active (run_id, queued_ns, concurrency_key) VALUES (:run_id, :queued_ns, :concurrency_key);

-- name: active
SELECT run_id, queued_ns, concurrency_key FROM active ORDER BY queued_ns;

-- name: end
DELETE FROM active WHERE run_id = :run_id;

-- name: key
SELECT digest, run_id FROM idempotency WHERE key = :key;

-- name: use_key
INSERT INTO idempotency (key, digest, run_id, used_ns) VALUES (:key, :digest, :run_id, :used_ns);

-- name: forget_keys
DELETE FROM idempotency WHERE used_ns < :before_ns;
