"""Readiness: whether a background run is ready, by its port, its output or its answer to a request."""
