"""The terminal: the foreground loop of `run` and `attach`, keys, signals, window sizes."""
