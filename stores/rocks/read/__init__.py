"""The readers: a secondary instance of the database at one seq, its tables, their history, and verification.

It may import the modules of stores/rocks beside it, and nothing of `write`.
"""
