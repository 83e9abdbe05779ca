"""Door for clients of the OpenAI Responses API: agents are its models, and a response is a run."""
