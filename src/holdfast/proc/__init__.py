"""Processes as `/proc` shows them: the process table, blocked system calls, and waiting for input."""
