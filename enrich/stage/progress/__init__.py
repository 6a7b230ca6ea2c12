"""Where a stage is: checkpoint, consumer group, pins, identity of its topic; who may go on from there.

It may use `task` and Kafka clients.
"""
