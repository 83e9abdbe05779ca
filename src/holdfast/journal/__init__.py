"""The journal: what a guard recorded about one run, as frames in a file or a memfd.

`facts` is the table of everything that can be recorded, `codec` turns facts into bytes and back, `reader` follows a
journal while it grows, `beginning` writes its first frames. Nothing here decides what a fact means: `outcome` does.
"""
