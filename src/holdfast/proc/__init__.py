"""What a process is doing, as `/proc` shows it: the call it is blocked in, and whether it waits for input."""
