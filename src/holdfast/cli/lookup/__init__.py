"""Which runs a command line means, and where they are: in the state directory or in the queue of the daemon."""
