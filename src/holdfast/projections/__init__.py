"""One outcome, many surfaces: each module here is a pure function of it and keeps no status of its own."""
