"""Benchmarks: ratios against the usual ways to start a process and against the physical limit, from one run."""
