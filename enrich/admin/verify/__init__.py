"""`enrich table verify`: a table of this host compared with its topic, row by row.

It may use the host's readers and its own consumer; it trusts nothing that the agent did.
"""
