"""Creates Kafka clients: settings for librdkafka and Java, logs, errors, and diagnosis of unreachable brokers.

May import `config` and `base`.
"""
