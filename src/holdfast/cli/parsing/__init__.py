"""Parse command lines: option tables, the frame of a command, the list of commands."""
