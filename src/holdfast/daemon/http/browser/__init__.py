"""What browsers need: logging in, and the files of the dashboard."""
