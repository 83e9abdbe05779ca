"""History: every ended run in one SQLite file, made from the journals alone."""
