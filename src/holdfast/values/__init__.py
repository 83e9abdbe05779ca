"""What Holdfast speaks of: specs, durations, signals, ids, identities, errors. Values know nothing of I/O."""
