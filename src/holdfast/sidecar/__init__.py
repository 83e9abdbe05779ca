"""The sidecar (`holdfast sidecar`): the library for programs in other languages, as JSON-RPC on stdin and stdout."""
