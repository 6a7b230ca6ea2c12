"""The agent of a host and its readers: one process tails a pipeline's tables into the store, the others read it.

Stages start the agent and read the store; nothing here knows Spark. `process` is the agent, `reader` is the readers'
side, `ipc` holds the files and the socket between them. A package may import only those that come after it in this
list: process; reader; on_demand; loaders; follow, mirror; load; claims; ipc.
"""
