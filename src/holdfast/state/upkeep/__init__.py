"""Upkeep of a state directory: orphans, lost runs, repairs, and the sweep that looks for them."""
