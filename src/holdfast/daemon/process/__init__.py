"""The daemon as a process of its own: its log, its signals, its service manager, its background tasks."""
