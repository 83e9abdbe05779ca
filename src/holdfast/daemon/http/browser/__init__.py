"""The browser's part of the HTTP API: login and the dashboard's files."""
