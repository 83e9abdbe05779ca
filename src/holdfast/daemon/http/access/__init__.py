"""Who may use which route and which run over HTTP."""
