"""What the observer sees and writes: tallies, the ends of topics, whether nodes answer, and its own verdicts.

May use Kafka, and `observe_service.verdicts` and `observe_service.alarms` for what it hands over.
"""
