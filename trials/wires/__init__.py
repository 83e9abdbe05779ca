"""Wires: the model interfaces that the harnesses speak, one file each, as pure functions from and to JSON."""
