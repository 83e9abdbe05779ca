"""The Python client of a daemon: `holdfast.Client` and `holdfast.AsyncClient`. Needs httpx2 (`holdfast[client]`).

Nothing is imported here: the command line uses the modules that need no HTTP library.
"""
