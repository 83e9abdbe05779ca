"""The commands of `holdfast`: the name of each, and what it does in a few words."""

from __future__ import annotations

# What users of other programs type, and the words that mean it here.
OTHER_NAMES = {
    "inspect": ("show",),
    "kill": ("cancel", "--now"),
    "list": ("ps",),
    "log": ("logs",),
    "ls": ("ps",),
    "sessions": ("session",),
    "status": ("show",),
    "stop": ("cancel",),
    "tail": ("logs", "--follow"),
}
# These have no such command here; each remedy names what there is.
NOT_HERE = {
    "exec": "holdfast run runs a command, holdfast attach connects to a live run",
    "init": "nothing has to be prepared: holdfast run -- COMMAND",
    "remove": "holdfast prune removes ended runs",
    "restart": "holdfast cancel ends a run, holdfast run starts one",
    "rm": "holdfast prune removes ended runs, holdfast cancel ends live ones",
    "start": "holdfast run --detach starts a run in the background",
}
COMMANDS = {
    "run": "run a command in the foreground, and make sure that it ends well",
    "stdio": "run an MCP, LSP or ACP server for its client, and end all of it with the client",
    "sh": "run a line of shell, as transparently as a shell would",
    "register": "watch a process that another program started, and end it with its session",
    "submit": "queue a command with the daemon",
    "ps": "list the runs",
    "top": "see every run live in this terminal",
    "show": "show the report of a run",
    "why": "tell what happened to a run, and what decided its outcome",
    "logs": "print the output of a run",
    "wait": "wait for runs to end",
    "cancel": "end runs, and say whether their processes are gone",
    "extend": "move the deadline of a live run",
    "signal": "send a signal to a live run",
    "attach": "connect the terminal to a live run",
    "session": "list sessions, set the budget of one, open one again",
    "reap": "close a session, and end its runs",
    "prune": "remove old runs",
    "doctor": "look for problems, and repair them",
    "hosts": "list the hosts of the daemon, their load and leases",
    "orphans": "find what dead agents left on this host, and end it",
    "serve": "be the daemon: queue, HTTP, events, history",
    "open": "open the dashboard of the daemon in a browser",
    "token": "make, list and revoke tokens for clients of the daemon",
    "audit": "show who asked the daemon for what",
    "config": "show the daemon's settings, and where each comes from",
    "unit": "print a systemd unit for the daemon",
    "install": "write Holdfast into the settings of agent harnesses",
    "uninstall": "put these settings back as they were",
    "hook": "tell a harness what its runs did, or end them with its session",
    "mcp": "serve runs as tools to an MCP client",
    "acp": "run an ACP agent for an editor, with prompts that end",
    "sidecar": "serve a program in another language, on stdin and stdout",
    "completion": "print the completion script of a shell",
}
