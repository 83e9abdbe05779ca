"""MCP server (`holdfast mcp`): runs as tools of the Model Context Protocol. Needs the extra `mcp`."""
