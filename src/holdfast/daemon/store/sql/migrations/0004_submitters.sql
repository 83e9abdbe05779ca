-- Who posted a queued run: the policy judges the run again when it starts. NULL in `role`: the run is not judged, because
-- the operator's configuration names its command, or an older version queued it. NULL in `uid`: it came over TCP.
ALTER TABLE queue ADD COLUMN role TEXT;
ALTER TABLE queue ADD COLUMN uid INTEGER;
