"""Rejected records: the dead letters of stages and routes, and the quarantine of tables. One kit for two commands.

It shows them, sends them back to their topics, or removes them. It may use Kafka and the host's readers.
"""
