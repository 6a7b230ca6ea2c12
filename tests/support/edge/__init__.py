"""Ingest, expel and the retrier under test, with their senders and customers."""
