"""Door for clients of the Agent2Agent protocol (A2A 1.0, JSON-RPC): each agent has a card, and a task is a run."""
