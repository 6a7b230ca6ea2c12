"""What follows from tallies: the ways of events through a pipeline, and what became of those of a minute on each.

Nothing here waits or talks to anybody: who reads tallies gives them in. It may use `enrich.tally` and `enrich.verdict`.
"""
