"""The library: one run as its owner sees it, blocking runs, and the supervisor of many."""
