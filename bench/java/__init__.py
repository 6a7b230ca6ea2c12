"""Peers that are written in Java, with their archives: Kafka Streams and Debezium's engine."""
