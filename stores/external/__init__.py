"""External stores (Redis, PostgreSQL). For the sync service only: the stream never calls them.

For now the boundaries where their drivers' errors become ours; versioned writes stand here next.
"""
