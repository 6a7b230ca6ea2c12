"""`enrich table`: reads, writes and deletes rows, makes snapshots, and shows a table's size.

Thin, like all commands: they call `admin` and `host` and render what these return.
"""
