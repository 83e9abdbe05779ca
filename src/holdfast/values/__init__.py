"""Values without I/O: the spec of a run and its options, durations, signals, run ids, process identities, errors."""
