"""Print for people: messages on stderr, tables, the results of stops."""
