"""A stage as one lazy DataFrame: events in, the records of all its topics out. Nothing runs here.

It may use `events`, `task`, `measure` and `progress`; of `worker` only what a task calls.
"""
