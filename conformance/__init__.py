"""The conformance pack: adversarial children in rows, ways to run a process in columns, what held and what did not."""
