"""Command lines: options, and the frame of a command."""
