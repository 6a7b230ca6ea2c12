"""`enrich table`: rows read, written and deleted, snapshots, and what a table takes.

Thin, as all commands: they call `admin` and `host` and render what comes back.
"""
