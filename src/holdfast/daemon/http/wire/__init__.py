"""The HTTP API as values: what an operation is, and the types that go over the wire."""
