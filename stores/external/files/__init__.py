"""Reads files as Arrow batches, from any file system that fsspec supports.

Nothing here knows a configuration or a topic.
"""
