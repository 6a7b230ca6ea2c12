"""The writer of segments: publications, bases, merges, restarts.

It may use `loops` and the files; of `read` nothing.
"""
