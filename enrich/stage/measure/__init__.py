"""What is counted and timed in a stage, exact for each batch, and its metrics.

It may use `task` and `progress`.
"""
