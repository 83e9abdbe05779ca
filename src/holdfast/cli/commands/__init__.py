"""The commands of `holdfast`, one file each. `cli/main.py` imports only the file of the given command."""
