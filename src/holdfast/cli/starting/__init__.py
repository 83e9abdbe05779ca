"""What `run` does before and after its foreground loop: where a run is kept, its environment file, its report file."""
