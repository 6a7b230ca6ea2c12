"""A stage as one DataFrame: events in, the records of all its topics out; lazily, nothing runs here.

It may use `events`, `task`, `measure` and `progress`; of `worker` only what a task calls.
"""
