"""Trials: real agent harnesses through scripted sessions, with and without Holdfast, measured from outside.

The harness, its shell tool, its MCP client and the processes are real. The model is a script: it asks for one command
and then says a last word (`model.py`). A trial counts what the session leaves, how long the harness hung, how many
bytes were lost and what the model was told, and then ends everything that it found.
"""
