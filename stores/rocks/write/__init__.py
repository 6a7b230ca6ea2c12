"""The parts of a publication: incoming records, folding them into rows, quarantine, expiry.

It may import the engine's database and layout, and nothing of `read`. `store.py` puts the parts together.
"""
