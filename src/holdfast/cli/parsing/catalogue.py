"""The commands of `holdfast`: the name of each, and what it does in a few words."""

from __future__ import annotations

COMMANDS = {
    "run": "run a command in the foreground, and make sure that it ends well",
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
    "reap": "close a session, and end its runs",
    "prune": "remove old runs",
    "doctor": "look for problems, and repair them",
    "serve": "be the daemon: queue, HTTP, events, history",
    "open": "open the dashboard of the daemon in a browser",
    "config": "show the daemon's settings, and where each comes from",
    "unit": "print a systemd unit for the daemon",
    "mcp": "serve runs as tools to an MCP client",
    "acp": "run an ACP agent for an editor, with prompts that end",
    "sidecar": "serve a program in another language, on stdin and stdout",
    "completion": "print the completion script of a shell",
}
