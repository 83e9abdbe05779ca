"""The application `holdfast top`: every run live in a terminal. It needs textual (`holdfast[top]`)."""
