"""Loads a whole table from its topic or a snapshot, in a process of its own. The old rows answer meanwhile.

It may import `claims` and `ipc`.
"""
