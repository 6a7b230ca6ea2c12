"""The host's local state: the agent, its tables, and the cache of tables on demand."""
