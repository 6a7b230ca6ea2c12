"""What a publication is made of: what came, folded into the rows, set aside, expired.

It may use the database and the layout of the engine; of `read` nothing. `store.py` puts it together.
"""
