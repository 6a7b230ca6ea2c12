"""How much a pipeline can take: events at rising rates, whatever becomes of those before, until a promise breaks.

May use `tally`, `verdict`, `kafka` and `config`. It drives a pipeline that runs; it starts none.
"""
