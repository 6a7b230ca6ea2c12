"""The profile `realtime`: tasks of one Spark job, the *slots*, read, join and write by themselves as long as the stage
runs. Spark places, supervises and restarts them.

A slot reads its partitions in small pieces; what it makes of a piece and the offsets behind it are one Kafka
transaction. It may use every room of the stage but `run`.
"""
