"""The daemon's own durable data, in one SQLite file."""
