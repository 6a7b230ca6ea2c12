"""Loads a table whole from its topic or a snapshot, in a process of its own, beside the rows that go on answering.

It may use `claims` and `ipc`.
"""
