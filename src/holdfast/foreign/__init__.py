"""Foreign orphans: what agents left on this host without Holdfast, found by their marks, ended by identity."""
