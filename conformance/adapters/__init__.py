"""One program for each way to run a process; all take the same task and give the same small answer."""
