"""Launching a guard and talking to it. Nothing outside this package knows the control protocol's numbers."""
