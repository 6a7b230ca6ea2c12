"""Kafka clients with one set of habits: their settings in both dialects, logs, errors, and why brokers do not answer.

It may use `config` and `base`.
"""
