"""Access to the daemon: roles, tokens, the caller of a request, and the audit log."""
