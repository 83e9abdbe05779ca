"""Rigs: real systems that trials and tests use. What a rig downloads stays in a cache outside the repository."""
