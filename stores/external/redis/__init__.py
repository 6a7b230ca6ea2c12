"""Redis as a versioned store, and read in batches.

The client's errors are mapped here and nowhere else; nothing here knows a configuration or a topic.
"""
