"""Standard streams as lines: what the sidecar and the ACP proxy speak over."""
