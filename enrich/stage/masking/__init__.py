"""Masks of values: of the members of JSON events, of the columns of rows, and of the keys of records.

It may use `events`, `task` and the codecs. Nothing in here keeps a value that it has masked.
"""
