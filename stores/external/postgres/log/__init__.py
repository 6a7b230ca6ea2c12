"""PostgreSQL's change log: the replication protocol, and its messages as columns.

`stream` speaks the protocol, `slots` makes and checks what it needs in the database, `messages` takes the messages
apart without an object per row, `tuples` and `texts` make Arrow columns of the rows.
"""
