"""Reads, writes and deletes rows of a table's topic, loads them from files, and rebuilds a table."""
