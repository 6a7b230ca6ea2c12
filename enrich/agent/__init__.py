"""The agent: one process a host that tails a pipeline's tables into the store and tells readers how fresh they are.

`header` is what readers see of it, `lock` its election, `leases` how it knows that somebody still needs it. Stages
start it and read beside it; nothing here knows Spark.
"""
