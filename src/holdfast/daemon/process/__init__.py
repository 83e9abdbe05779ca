"""The daemon as a process: its log, its signals, its service manager, its background tasks."""
