"""The agent of a host and its readers: one process tails a pipeline's tables into the store, the others read it.

Stages start the agent and read beside it; nothing here knows Spark. `process` is the agent, `reader` the other side,
`ipc` the files and the socket between the two. A room uses those named after it: process; reader, loaders; follow,
mirror; load; claims; ipc.
"""
