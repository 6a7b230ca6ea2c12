"""Bulk loads: sorted runs beside the rows that go on answering, swapped in as a whole.

It may use the rows and the database of the engine, and what `write` folds.
"""
