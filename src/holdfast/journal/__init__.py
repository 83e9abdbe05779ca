"""The journal: what a guard wrote down about one run, as frames in a file or a memfd.

`facts` is the table of what can be said, `codec` turns it into bytes and back, `reader` follows a journal while it
grows. Nothing here decides what a fact means: that is `holdfast.outcome`.
"""
