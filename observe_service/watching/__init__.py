"""What the observer sees and writes: tallies, the ends of topics, whether nodes answer, and its own verdicts.

May use Kafka, and `observe_service.verdicts` for what it hands over.
"""
