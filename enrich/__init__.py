"""The stream processor: its command line, configuration, Kafka clients, codecs and embedded stack.

Calls `stores` for local state; is called by the programs in `jobs/` and `sync_service/`, never the other way round.
"""
