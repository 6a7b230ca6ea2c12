"""The sync service: stores to topics, and topics to stores."""
