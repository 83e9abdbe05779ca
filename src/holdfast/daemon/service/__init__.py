"""What can be asked of the daemon. Nothing here knows HTTP."""
