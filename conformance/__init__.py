"""The conformance pack: adversarial children in rows, ways to run a process in columns, and whether each row held.

`rows.py` (with `attacks.py`) and `peers.py` are the two tables. A cell (`cell.py`) starts the peer's adapter
(`adapters/`) in the surroundings of the row (`surroundings.py`), hands it the row's task, does to it what the row says
(`interference.py`), and looks who is left (`oracle.py`); what was seen is compared with what must hold
(`expectation.py`). The children are those of `tests/children`. `campaign.py` runs all cells, `page.py` and `heatmap.py`
show them from the JSON alone.

A new row is an entry in `rows.py`, and a program in `tests/children` if none fits. A new peer is an adapter that takes
a task and gives an answer (`task.py` has both), and an entry in `peers.py`: how it is used, what it has no notion of,
and how to find out that it is not there.
"""
