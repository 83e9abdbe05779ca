"""The queue: runs from the post to their end."""
