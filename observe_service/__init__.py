"""The observer: says minute by minute, from what the nodes of a pipeline tell, what was lost and how late events were.

A program of its own. It may use `enrich`, and never the command line.
"""
