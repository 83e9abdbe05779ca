"""The command line: one file per command. Nothing is imported before it is known to be needed."""
