"""Webhooks: what is delivered to a URL when a run has its verdict."""
