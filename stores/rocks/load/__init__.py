"""Bulk loads: rows are sorted and written beside the old ones, which keep answering, and are swapped in as a whole.

It may import the engine's rows and database, and parts of `write`.
"""
