"""Redis as a versioned store, and a reader in batches.

The client's errors are mapped only here; nothing here knows a configuration or a topic.
"""
