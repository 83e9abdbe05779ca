"""The daemon's HTTP API: the application, its access policy, and the OpenAPI document."""
