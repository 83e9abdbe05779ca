"""The daemon: admission, HTTP, events, deliveries, recovery and drain around one supervisor."""
