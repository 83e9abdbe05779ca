"""The service manager, such as systemd: what Holdfast tells it about the daemon and about a foreground run."""
