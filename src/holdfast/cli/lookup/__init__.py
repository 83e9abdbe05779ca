"""Find the runs that a command line names, in the state directory or in the daemon's queue."""
