"""The walls of every HTTP server of ours: bounds on connections and bodies, and problems as answers."""
