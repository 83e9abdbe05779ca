"""The state directory: run directories on disk, their locks, recovery, sessions, and connections to guards."""
