"""Files as Arrow batches, from wherever fsspec reaches.

Nothing here knows a configuration or a topic.
"""
