"""Guards: starting them, talking to them, using them again, and ending what a dead one left."""
