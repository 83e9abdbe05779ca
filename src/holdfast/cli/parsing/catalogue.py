"""The commands of `holdfast`: the name of each, and what it does in a few words."""

from __future__ import annotations

COMMANDS = {
    "run": "run a command in the foreground, and see to it that it ends well",
    "submit": "queue a command with the daemon",
    "ps": "list the runs there are",
    "top": "see every run live in this terminal",
    "show": "show the report of a run",
    "why": "tell what happened to a run, and what decided",
    "logs": "print what a run wrote",
    "wait": "wait for runs to end",
    "cancel": "end runs, and say what was confirmed",
    "extend": "move the deadline of a live run",
    "signal": "send a signal to a live run",
    "attach": "connect the terminal to a live run",
    "reap": "close a session, and end its runs",
    "prune": "remove old runs",
    "doctor": "look for what is wrong",
    "serve": "be the daemon: queue, HTTP, events, history",
    "open": "open the dashboard of the daemon in a browser",
    "config": "show the daemon's settings, and where they come from",
    "unit": "print a systemd unit for the daemon",
    "mcp": "serve runs as tools to an MCP client",
    "sidecar": "serve a program in another language, on stdin and stdout",
    "completion": "print the completion script of a shell",
}
