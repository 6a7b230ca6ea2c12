"""Administration: what people on call and deployment scripts do to topics, tables and dead letters.

`topics` makes and checks topics, `rows` reads and changes the records of tables, `rejected` handles dead letters and
quarantined records, `moves` moves a table to another topic, `snapshots` exports and imports a table, `verify` compares
a table with its topic, `doctor` checks everything that a newcomer gets wrong, `starting` makes a first configuration
file. Only the command line calls these rooms; it renders what they return.
"""
