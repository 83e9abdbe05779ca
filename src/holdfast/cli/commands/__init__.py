"""The commands, one file each. `cli/main.py` imports the one that was asked for."""
