"""Runs as tools of the Model Context Protocol: `holdfast mcp`. Needs the extra `mcp`; only that command imports it."""
