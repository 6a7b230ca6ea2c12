"""The readers: a secondary of the database at one seq, its tables, their past, and whether all of it is whole.

It may use what stands beside it in stores/rocks; of `write` nothing.
"""
