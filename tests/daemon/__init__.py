"""The daemon, as a real process."""
