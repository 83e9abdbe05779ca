"""HTTP of the daemon: routes, types, problems and the walls in front of them."""
