"""Upkeep of a state directory: orphans, lost runs, stale sockets, and the sweep that clears them."""
