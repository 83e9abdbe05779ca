"""The index: the history of ended runs in one SQLite file, made from the journals."""
