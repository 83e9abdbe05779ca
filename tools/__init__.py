"""Tools for developers: the rule of the rooms, and the pages that are made from the code."""
