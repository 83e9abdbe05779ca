"""Start a run of the command line, and write its report file at the end."""
