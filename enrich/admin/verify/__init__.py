"""`enrich table verify`: compares a table of this host with its topic, row by row.

It uses the host's readers and a consumer of its own, and relies on nothing that the agent did.
"""
