"""`enrich table export|import`: a table as files, and back. The agent, the only writer of a store, does the import.

It may use the host's readers and `ipc`.
"""
