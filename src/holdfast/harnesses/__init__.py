"""Agent harnesses on this host: find them, and write Holdfast into their settings, or take it out again."""
