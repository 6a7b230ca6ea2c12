"""An entry: checks requests, writes their events, answers when the in-sync replicas have them, and tallies them."""
