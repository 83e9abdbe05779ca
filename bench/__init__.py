"""Ratios against the usual ways to start a process and against the physical limit, all from one run on one machine."""
