"""The operations of the daemon, which HTTP and other surfaces call. Nothing here knows HTTP."""
