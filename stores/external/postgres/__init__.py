"""PostgreSQL as a versioned store, and a reader that returns Arrow batches.

psycopg's errors are mapped only here; nothing here knows a configuration or a topic.
"""
