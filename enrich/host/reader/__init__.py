"""The reader's side: the newest rows of the store, how fresh they are, and a new agent if the old one is gone.

It may import `ipc`, what `mirror` and `on_demand` have for readers, and the readers of `stores`. Stages and commands
use it. Each Spark worker imports what it imports.
"""
