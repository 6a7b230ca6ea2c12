"""Spark under test: its start, clusters of processes, and its answers beside those of the workers."""
