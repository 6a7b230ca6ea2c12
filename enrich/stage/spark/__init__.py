"""Spark around a stage: its settings by profile, the session, and the archive that takes the code to a cluster.

Knows nothing of what a stage does with events. Used by `run`, the programs and the command line.
"""
