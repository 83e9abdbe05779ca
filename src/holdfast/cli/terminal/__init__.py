"""The loop of a foreground run, and its ends: signals, the terminal, input, output."""
