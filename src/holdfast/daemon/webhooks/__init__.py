"""Webhooks: the verdict of a run, posted to a URL."""
