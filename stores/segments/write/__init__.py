"""The writer of segments: publications, bases, merges, restarts.

It may import `loops` and the modules of files, and nothing of `read`.
"""
