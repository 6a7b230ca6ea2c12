"""`enrich dlq` and `enrich quarantine`: what could not be processed, looked at, sent back and removed."""
