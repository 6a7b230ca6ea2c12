"""A stage from its start to its end: checks, preload, the query, its supervision, how it is stopped.

It may use every room of the stage; the program `jobs/enrich_stage.py` calls it.
"""
