"""A daemon, asked from Python: `holdfast.Client` and `holdfast.AsyncClient`. Needs httpx2 (`holdfast[client]`).

Nothing is imported here: the command line uses the parts that need no HTTP library.
"""
