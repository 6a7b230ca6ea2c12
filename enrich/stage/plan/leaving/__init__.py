"""The records that a stage makes of an event, as Spark's expressions: routes, write-back, dead letters.

It may use the rest of `plan` but for `parts` and `plan`, which put a stage together.
"""
