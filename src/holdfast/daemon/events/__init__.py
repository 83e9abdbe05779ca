"""The daemon's event log and its subscribers."""
