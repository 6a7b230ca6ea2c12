"""Rejected records: the dead letters of stages and routes, and the quarantine of tables. One kit for two commands.

Looked at, sent back to where they came from, removed. It may use Kafka and the host's readers.
"""
