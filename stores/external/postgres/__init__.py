"""PostgreSQL as a versioned store, and read as Arrow batches.

psycopg's errors are mapped here and nowhere else; nothing here knows a configuration or a topic.
"""
