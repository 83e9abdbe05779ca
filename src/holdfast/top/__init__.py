"""`holdfast top`: every run in a terminal, with its log and its evidence. Needs textual (`holdfast[top]`)."""
