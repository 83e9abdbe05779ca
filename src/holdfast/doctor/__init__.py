"""The doctor: looks at the host, the runs and the index, and says what is wrong."""
