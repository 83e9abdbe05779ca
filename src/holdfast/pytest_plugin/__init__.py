"""The pytest plugin: a test that leaves processes behind fails, and `--holdfast-reap` ends them."""
