"""Engines start runs: on this host, and later on other hosts."""
