"""A run, a fact, an outcome as text for people: rows, timelines and text that is safe to show."""
