"""`enrich table export|import`: a table as files, and back. The agent, which alone writes, takes them in.

It may use the host's readers and `ipc`.
"""
