"""Runs that another process started, followed to their end: `wait`, `attach`, `logs --follow`."""
