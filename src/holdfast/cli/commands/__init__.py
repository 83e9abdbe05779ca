"""The commands of `holdfast`, one file each; `cli/main.py` imports the one that the user gave."""
