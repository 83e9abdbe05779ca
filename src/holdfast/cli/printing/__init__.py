"""What the command line prints: messages, tables, lines of a log."""
