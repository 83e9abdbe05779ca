"""What outlives a process: run directories, their journals, and everything that reads them back."""
