"""The event log of the daemon and its subscribers."""
