"""How far a stage is: checkpoint, consumer group, pins, identity of its topic; and which driver may continue it.

It may use `task` and Kafka clients.
"""
