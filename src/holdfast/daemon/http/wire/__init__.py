"""The HTTP API as values: one operation, and the types that go over the wire."""
