"""Shared parts of the tests: real children, processes that must be gone, and checks for leftovers."""
