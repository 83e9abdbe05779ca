-- Deliveries to webhooks. A row is inserted with the run (waiting), gets its body in the transaction that stores the
-- run.verdict event (pending), and ends as delivered or failed.
CREATE TABLE deliveries (
  run_id TEXT PRIMARY KEY,
  url TEXT NOT NULL,     -- may have a secret in it: shown to nobody
  origin TEXT NOT NULL,  -- scheme, host and port
  state TEXT NOT NULL CHECK (state IN ('waiting', 'pending', 'delivered', 'failed')),
  tries INTEGER NOT NULL DEFAULT 0,
  body BLOB,             -- the same bytes on each try; gone when it is over
  due_ms INTEGER,        -- when the next try may be made
  ended_ms INTEGER,
  last_error TEXT
) STRICT;

CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'pending';
CREATE INDEX deliveries_waiting ON deliveries (run_id) WHERE state = 'waiting';
