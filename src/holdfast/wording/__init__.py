"""A run, a fact or an outcome as text for people: sentences, rows, timelines, and text that is safe to show."""
