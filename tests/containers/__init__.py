"""Runs inside real containers: podman, runc, and an image with nothing but a shell."""
