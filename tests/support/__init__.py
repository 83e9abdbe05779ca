"""What the tests share: real children, processes that must be gone, and what a test may not leave behind."""
