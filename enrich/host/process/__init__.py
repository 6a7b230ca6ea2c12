"""The agent's process: one store, one lock, one loop, until it is told to stop or nobody needs it any more.

It may use every room of the host but `reader`; nobody uses it, it is started by `python -m enrich.host`.
"""
