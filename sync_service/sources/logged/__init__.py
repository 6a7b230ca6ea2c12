"""Sources that follow a database's change log: compared with the topic once, then each transaction as it is committed.

`route` is a source, `comparing` makes the topic equal to a snapshot, `following` applies the log to what is
`followed`, `place` remembers how far, in the same Kafka transactions.
"""
