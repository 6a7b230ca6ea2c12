"""The reader's side: newest rows of the store, how fresh they are, and a new agent where the old one is gone.

It may use `ipc` and the readers of `stores`. Stages and commands use it; what it imports, each Spark worker does.
"""
