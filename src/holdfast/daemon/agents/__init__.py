"""Agents as services: commands of the configuration, started by a prompt, each prompt a run of the daemon."""
