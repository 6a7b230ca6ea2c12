"""Rows of a table's topic: read, written, deleted, loaded from files, and a table loaded anew."""
