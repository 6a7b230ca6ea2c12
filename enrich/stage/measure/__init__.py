"""What a stage counts and times, exact for each batch, and its metrics.

It may use `task`, `progress` and `enrich.tally`.
"""
