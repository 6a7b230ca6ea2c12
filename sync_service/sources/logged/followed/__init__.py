"""What a source follows: a table and how it stands (`table`), its changes as records (`rows`), and the tables of a
source: one that is named (`tables`), or many by patterns (`many`).

It may use `headers` and `place`; all else of the room uses it.
"""
